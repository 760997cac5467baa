/* Sockets and messages of the health channel; private to health.c. */
#ifndef TDP_EXEC_HEALTH_NET_H
#define TDP_EXEC_HEALTH_NET_H

#include "exec/backend.h"

#include <glib.h>

enum { HEALTH_TEXT = 320 };

typedef enum { HEALTH_BEAT, HEALTH_FAIL, HEALTH_END, HEALTH_BYE } HealthKind;

/* On the wire as it stands: the hosts of a run are alike. */
typedef struct {
  guint32 kind;
  gint32 rank, pid;
  guint64 progress, waits;
  char text[HEALTH_TEXT];
} HealthMessage;

typedef struct {
  gint32 ip, port; /* network and host order */
} HealthAddress;

/* A socket that listens on this host, reachable from others unless `one_host`;
 * -1 and TDP_ERROR_RUNTIME if there is none. */
int health_listen(HealthAddress *address, gboolean one_host, GError **error);

/* Rank 0's address for all. */
void health_share(HealthAddress *address, Backend *backend, BackendComm *world);

/* Connections, -1 and an error after 30 s. */
int health_connect(const HealthAddress *address, int rank, GError **error);
int health_accept(int listener, int *rank, GError **error);

void health_send(int fd, const HealthMessage *message); /* a full or broken pipe is noticed by reading */

/* 1 = a message, 0 = not all of it yet, -1 = closed. */
int health_receive(int fd, HealthMessage *message);

#endif
