/* The channel's state, between what watches (control.c) and what brings ranks together (control_meet.c). */
#ifndef TDP_EXEC_CONTROL_STATE_H
#define TDP_EXEC_CONTROL_STATE_H

#include "exec/control.h"
#include "exec/control_net.h"

typedef struct {
  int rank;
  Line line;        /* none: not yet come, gone, or goodbye said */
  gboolean came;
  gint64 heard_us;
  gboolean ending;  /* rank 0, which reports before it tells to end */
  guint64 progress, waits;
  gint64 waited_us; /* when `waits` last grew */
  char phase[CONTROL_TEXT];
} Peer;

/* Who has connected to rank 0 and not yet said who it is. */
typedef struct {
  Line line;
  struct sockaddr_in from;
  gint64 since_us;
  guint8 nonce[NONCE_BYTES];
} Caller;

/* What one needs until all have come. */
typedef struct {
  guint8 key[KEY_BYTES];
  struct sockaddr_in addresses[CONTROL_ADDRESSES]; /* of rank 0 */
  int n_addresses;
  int listener;    /* of rank 0, else -1 */
  GArray *callers; /* Caller, of rank 0 */
  int strangers;   /* dropped */
  int root;        /* descriptor of others, connected to rank 0 */
} Meeting;

struct Control {
  ControlOptions options;
  int rank, size;
  Peer *peers;          /* of rank 0: ranks 1 and up; of others: rank 0 */
  int n_peers;
  Meeting meeting;
  GThread *thread;
  gint64 began_us, moved_us; /* when any rank last moved */
  gint64 beat_us, signal_us; /* last beat; SIGTERM, 0 = none */
  gboolean said_bye;
  GByteArray *incoming; /* of what is shared, as far as it has come */
  Peer own;             /* progress and waits of this rank */
  GMutex lock;          /* of what follows */
  GCond changed;
  char doing[CONTROL_TEXT]; /* before the meeting */
  gboolean arranged; /* rank 0 listens, others are connected */
  gboolean met, closing;
  double stall_s;
  char *failure;        /* NULL = none */
  int code;
  GQueue shared;        /* GBytes: of rank 0 to be sent, of others as they came */
};

/* What the main thread waits for, should it wait too long. */
void control_note(Control *c, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* By the main thread of a rank that is not alone: finds the key and rank 0, which then listens, and to which others
 * connect. What goes wrong ends the run. */
void meet_arrange(Control *c);

/* Takes in who calls rank 0, and on other ranks the connection; TRUE on rank 0 once all have come. By the watching
 * thread, when meet_arrange has returned. */
gboolean meet_advance(Control *c, gint64 now);

/* Who has not come, for the line; newly allocated. */
char *meet_missing(const Control *c);

void meet_clear(Control *c);

/* Where meet_arrange has started it. */
void meet_stop_mpi(const Control *c);

#endif
