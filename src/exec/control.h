/*
 * The run's control channel: a TCP connection of every rank to rank 0, opened before anything else that ranks do
 * together and closed behind all of it, watched by a thread of each process.
 *
 * It carries the meeting of the ranks, what rank 0 shares with all (the run's fingerprint, NCCL's id), a beat four
 * times a second with what each rank is doing, and failures. The run ends when not all ranks meet within `meet_s` of
 * their start (those that rank 0 knows wait a second longer, to be told who is missing), a connection closes before
 * its rank said goodbye (it died), nothing is heard of a rank for `silence_s` (it was stopped, or its host is gone),
 * nobody has moved for the stall time (a rank hangs: of those that do not wait for others the one furthest behind), a
 * rank reports a failure, or SIGTERM comes.
 *
 * Ending means: each process says by the `last_words` function, called once from the watching thread, a line that names
 * the rank, what it was doing and the reason, and ends itself by the `end` function, which must not return. `reports` is
 * TRUE on one rank: rank 0, or rank 1 where that is gone. Rank 0 tells all others that it ends, and to end behind its last
 * words, for which they wait up to `report_s` (a minute: a report of many ranks is written in seconds, and a rank 0
 * that is stopped meanwhile is no worse than one that hangs): a launcher ends the ranks that are left once one has ended.
 * No process ends another.
 *
 * Where ranks meet. MPI's own ranks (Launch.mpi) hear from rank 0, over MPI, its address and the run's key. Others
 * meet at Launch.address, and the key is made of TDP_RUN_SECRET, or of what the file TDP_RUN_SECRET_FILE says. Rank 0
 * listens until all have come: on the loopback where all ranks are on its host, else at the interface that has the
 * address (of MPI's ranks: whose network all other hosts are in); at all interfaces only where it cannot know which
 * one it is.
 *
 * Both sides prove by a challenge that they know the key (HMAC-SHA256), so nobody without it becomes a rank, or rank
 * 0. Whoever else calls, or says nothing for three seconds, is dropped with a line and takes no memory and no time
 * from the others. Without MPI and without a secret the key follows from the job's id alone, which is not secret: that
 * tells runs apart and keeps away what speaks another protocol, not who wants to disturb. In no case is it hidden what
 * is said, nor safe from those who can alter packets on their way.
 *
 * A process has one channel at a time. One with a single rank has no connections, but is watched in the same way.
 */
#ifndef TDP_EXEC_CONTROL_H
#define TDP_EXEC_CONTROL_H

#include "exec/launch.h"

#include <glib.h>

typedef struct Control Control;

typedef struct {
  Launch launch;
  double meet_s, silence_s, report_s;
  void (*phase)(void *data, char *text, gsize size);
  guint64 (*progress)(void *data); /* grows while the rank does something; 0 = has not begun */
  guint64 (*waits)(void *data);    /* grows while it waits for others: what hangs does neither */
  void (*last_words)(void *data, gboolean reports, const char *message);
  void (*end)(void *data, int code); /* NULL = _exit */
  void *data;
} ControlOptions;

/* Has the usual times; its functions do nothing, but for `last_words`, which prints the line; `end` is NULL. */
ControlOptions control_options_default(const Launch *launch);

/* SIGTERM ends the run in the way described above. */
void control_catch_signals(void);

/* Returns when all ranks have met, by all ranks at once; what goes wrong ends the run. */
Control *control_open(const ControlOptions *options);

/* Rank 0's bytes, 1 to CONTROL_SHARE_MAX, to all ranks, by all at once; others give none. To be freed with
 * g_bytes_unref. */
enum { CONTROL_SHARE_MAX = 1 << 16 };
GBytes *control_share(Control *control, const void *data, gsize n);

/* Does the same for a BackendOptions, whose `control` is one; all ranks know how many bytes there are. */
void control_share_in_place(void *control, void *bytes, gsize n);

/* Sets the seconds without a move after which the run counts as hung; 0, as at first and at the end, is never. */
void control_watch_stall(Control *control, double stall_s);

/* Reports a failure of this rank and waits to be ended; `code` is the exit status of all. */
G_NORETURN void control_fail(Control *control, int code, const char *message);

/* Ends MPI where it was started, then says goodbye; by all ranks at once. */
void control_close(Control *control);

#endif
