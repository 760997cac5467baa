/*
 * Sockets of the control channel: addresses, connections that never block, and
 * the proof that the other side knows the run's key. Private to control*.c.
 *
 * Whatever comes in has a size that is known beforehand, so nothing is allocated
 * for it and no length from outside is ever used.
 */
#ifndef TDP_EXEC_CONTROL_NET_H
#define TDP_EXEC_CONTROL_NET_H

#include <glib.h>
#include <netinet/in.h>

enum { CONTROL_TEXT = 320, CONTROL_ADDRESSES = 16, KEY_BYTES = 32, NONCE_BYTES = 16, PROOF_BYTES = 32 };

typedef enum { FRAME_START, FRAME_BEAT, FRAME_SHARE, FRAME_FAIL, FRAME_END, FRAME_BYE, FRAME_ENDING, FRAME_KINDS } FrameKind;

/* On the wire as it stands: the hosts of a run are alike. */
typedef struct {
  guint32 kind;
  gint32 code;             /* of a failure and an end: exit status */
  guint32 total, bytes;    /* of a share: all of it; how many of them are in `text` */
  guint64 progress, waits; /* of a beat */
  char text[CONTROL_TEXT];
} Frame;

/* A connection; fd -1 = none. */
typedef struct {
  int fd;
  gsize have;        /* bytes of `in` */
  guint8 in[sizeof(Frame)];
  GByteArray *out;   /* what the other side has not yet taken; NULL = never used */
} Line;

void line_open(Line *line, int fd);
void line_close(Line *line);

/* Adds to what is to be sent and sends what goes. A line whose other side takes
 * nothing any more is closed. */
void line_send(Line *line, const void *data, gsize n);
void line_flush(Line *line);

/* 1 = `n` bytes, at most a frame, are in line->in; 0 = not all of them yet; -1 = closed. */
int line_receive(Line *line, gsize n);

/* Addresses are IPv4's, all in network order. */

/* Up to CONTROL_ADDRESSES addresses of "host:port"; 0 and why in `why` if there is none. */
int net_resolve(const char *text, struct sockaddr_in *out, char *why, gsize size);

/* The addresses of this host's interfaces without loopback; and whether another host's address is in the network of one
 * of them, and not one that this host has too (as that of a bridge of containers). */
int net_own_ips(guint32 out[CONTROL_ADDRESSES]);
gboolean net_is_near(guint32 ip);

char *net_text(const struct sockaddr_in *address);

/* A socket that listens at an address, -1 and errno. Neither it nor what it accepts blocks. A port of 0 becomes
 * the one that was found. */
int net_listen(struct sockaddr_in *address);
int net_accept(int listener, struct sockaddr_in *from);

/* A connection that blocks, each call for three seconds at most; -1 and errno. */
int net_connect(const struct sockaddr_in *address);

/* Bytes that nobody can guess. */
void net_random(void *out, gsize n);

/* HMAC-SHA256 (RFC 2104) under the key; whether two are the same, in a time that does not tell where they differ. */
void net_proof(const guint8 key[KEY_BYTES], const void *data, gsize n, guint8 out[PROOF_BYTES]);
gboolean net_same(const guint8 a[PROOF_BYTES], const guint8 b[PROOF_BYTES]);

#endif
