/* Passes that overlap: their common time, divided between their two tasks. */
#include "program/build.h"

/* Time of the pair beyond its computation, for each second that its passes expose on their own. */
static double exposed_share(const Segment *a, const Segment *b)
{
  double compute = a->compute_s + b->compute_s, exposed = a->seconds + b->seconds - compute;
  double pair = MAX(MAX(compute, a->tensor_s + b->tensor_s), MAX(a->seconds, b->seconds));

  return exposed > 0 ? (pair - compute) / exposed : 0;
}

/* The part that overlaps `other`. Where both compute side by side the second one's scratch stands beside the first
 * one's. */
static Segment overlapped(const ProgramBuild *b, const Chunk *chunk, int piece, gboolean releases, const Slot *slot,
                          const Chunk *other_chunk, const Slot *other)
{
  Piece layers = chunk_piece(chunk, piece);
  Segment s = pass_segment(b, chunk, layers, slot->pass, releases);
  Segment whole = pass_segment(b, chunk, chunk_whole(chunk), slot->pass, FALSE);
  Segment beside = pass_segment(b, other_chunk, chunk_whole(other_chunk), other->pass, FALSE);

  double share = exposed_share(&whole, &beside);
  segment_clear(&whole);
  segment_clear(&beside);
  s.seconds = s.compute_s + share * (s.seconds - s.compute_s);
  s.context_s *= share;
  s.expert_s *= share;
  s.data_s *= share;
  if (!slot->paired && !b->layout->passes.framework->pairs_in_turn) {
    s.alloc_bytes += beside.alloc_bytes;
    s.free_bytes += beside.alloc_bytes;
  }
  return s;
}

int alone_segment(ProgramBuild *b, int beside, const Chunk *chunk, int piece, Pass pass, gboolean releases)
{
  gint64 key = -1 - beside;
  int segment = GPOINTER_TO_INT(g_hash_table_lookup(b->pairs, &key));

  if (segment == 0) {
    Segment s = pass_segment(b, chunk, chunk_piece(chunk, piece), pass, releases);
    s.seconds += s.alone_s;
    s.expert_s += s.alone_s;
    segment = program_add_segment(b, s) + 1;
    g_hash_table_insert(b->pairs, g_memdup2(&key, sizeof key), GINT_TO_POINTER(segment));
  }
  return segment - 1;
}

static gint64 pair_key(int rank, const Slot *slot, const Slot *other, int piece, gboolean releases)
{
  return ((((((gint64)rank * 4096 + slot->chunk) * 4096 + other->chunk) * 8 + slot->pass) * 8 + other->pass) << 17) +
         2 * (piece + 1) + releases;
}

int pair_segment(ProgramBuild *b, int rank, const Slot *slot, const Chunk *chunk, int piece, gboolean releases,
                 const Slot *other, const Chunk *other_chunk)
{
  gint64 key = pair_key(rank, slot, other, piece, releases);
  int segment = GPOINTER_TO_INT(g_hash_table_lookup(b->pairs, &key));

  if (segment == 0) {
    segment = program_add_segment(b, overlapped(b, chunk, piece, releases, slot, other_chunk, other)) + 1;
    g_hash_table_insert(b->pairs, g_memdup2(&key, sizeof key), GINT_TO_POINTER(segment));
  }
  return segment - 1;
}
