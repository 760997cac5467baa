/*
 * Fits constants of kernels and links to measured times (GSL).
 *
 * Every fit takes rows of one part, uses those that are not for checking, and
 * returns how far the fitted formula is from each kind of row. What is made
 * small is the mean of |log(predicted / measured)|: errors are relative, and a
 * wild row weighs no more than its distance. Nothing is random: the same rows
 * in the same order give the same constants. Times are in seconds.
 *
 * To fit a new formula: a loss of its parameters and fit_minimize.
 */
#ifndef TDP_FIT_FIT_H
#define TDP_FIT_FIT_H

#include "cost/collective.h"
#include "cost/kernel.h"

/* Absolute relative errors |predicted / measured - 1| of n rows. */
typedef struct {
  int n;
  double mean, median, p90, max; /* 0 if n is 0 */
} FitErrors;

typedef struct {
  FitErrors fit, check;
} FitResult;

/* Sorts `errors`. */
FitErrors fit_errors(double *errors, int n);

/* Gathers predicted / measured of at most n rows; clear returns the result. */
typedef struct {
  double *errors[2]; /* of rows for fitting, for checking */
  int n[2];
} FitSides;

void fit_sides_init(FitSides *sides, int n);
void fit_sides_add(FitSides *sides, gboolean check, double ratio);
FitResult fit_sides_clear(FitSides *sides);

/* TRUE for a third of all keys, the same third on every machine. Keys are the
 * shape of a row, so that equal shapes fall on the same side. */
gboolean fit_is_check(const double *key, int n);

/* A parameter is kept in [min, max]; `step`, of either sign, is the first move
 * from `start`, where one without a step stays. */
typedef struct {
  double start, min, max, step;
} FitParameter;

#define FIT_PARAMETERS_MAX 16

typedef double (*FitLoss)(const double *x, gpointer data);

/* Nelder and Mead's simplex, begun again from its best point until that no
 * longer helps. Fills x, returns the loss. */
double fit_minimize(const FitParameter *parameters, int n, FitLoss loss, gpointer data, double *x);

typedef struct {
  Matmul shape;
  double seconds;
  double quantized; /* elements of A that were converted to 8 bits within the time; else 0 */
  gboolean check;
} MatmulRow;

/* Time of that conversion: kernels of their own, which the model leaves out. */
typedef struct {
  double base_s, s_per_element;
} Quantize;

/* Peak, bandwidth and sms as matmul_model_s takes them. Where rows have
 * quantized elements and `model` is known, its launch time is kept; its tile and `unaligned` are kept always. */
FitResult fit_matmul(const MatmulRow *rows, int n, double peak_flops_per_s, double memory_bytes_per_s, int sms,
                     MatmulModel *model, Quantize *quantize);

/* `added_power` and `experts_at_once` of a model whose other constants are known; rows of products alone, added to a
 * matrix or not, and of experts, a call each. The rate that the device sustained is fitted besides, and not kept. Errors
 * are of rows that are added or of experts: those returned at that rate, `own` at the device's sustained one. */
FitResult fit_library(const MatmulRow *rows, int n, const Device *device, MatmulModel *model, FitResult *own);

/* `unaligned` of a model whose other constants are known; rows of all four kinds. */
FitResult fit_unaligned(const MatmulRow *rows, int n, double peak_flops_per_s, double memory_bytes_per_s, int sms,
                        MatmulModel *model);

typedef struct {
  AttentionWork work;
  double seconds;
  double cache_bytes; /* keys and values, where a server's kernel also stores them */
  gboolean check;
} AttentionRow;

/* A server's attention has a longer fixed time than the kernel alone and writes
 * a cache. Finds both such that rows of equal length agree best on the share of
 * peak, takes them off `seconds` and puts the device's launch time there. Rows
 * for checking get the same, but say nothing of it. With `tail` the device's
 * attention_tail is found beside them. */
void fit_attention_serving(AttentionRow *rows, int n, Device *device, gboolean tail);

/* One curve from the rows of its kernel, pass, mask and head_dim; others, and
 * those for checking, are passed over. A point for each length in `seq` that
 * has rows: the median of the shares of peak, the device's launch time taken
 * off. FALSE if no row fits. */
gboolean fit_attention_curve(const AttentionRow *rows, int n, const Device *device, AttentionCurve *curve);

/* Errors of attention_s with the device's curves, for a moment (sustained_fraction 1). */
FitResult fit_attention_errors(const AttentionRow *rows, int n, const Device *device);

/* The device's attention_sustained: the median share of the rate of its curves that kernels kept which ran as in
 * training; rows for checking say nothing of it. 0 where no row does. Errors are at that rate. */
FitResult fit_attention_sustained(const AttentionRow *rows, int n, Device *device);

typedef struct {
  Collective collective;
  Cluster *cluster; /* the fit sets a link of it */
  GroupShape group;
  double bytes;
  double seconds;
  double weight; /* 1 / rows of its curve, so that curves count alike */
  gboolean check;
} CollectiveRow;

/* Which constants of a link are free. */
enum {
  FIT_LINK_BASE = 1 << 0,      /* base */
  FIT_LINK_HOP = 1 << 1,       /* hop */
  FIT_LINK_RATE = 1 << 2,      /* efficiency, sqrt */
  FIT_LINK_TREE = 1 << 3,      /* tree_hop */
  FIT_LINK_P2P = 1 << 4,       /* p2p base and efficiency */
  FIT_LINK_IN_SWITCH = 1 << 5, /* the three of in_switch */
  FIT_LINK_REDUCE = 1 << 6,    /* reduce_slowdown, far_reduce_slowdown and from where that is */
  FIT_LINK_SPREAD = 1 << 7,    /* p2p_efficiency, p2p_spread */
  FIT_LINK_SHORT = 1 << 8,     /* p2p base and efficiency, the two of short messages */
  FIT_LINK_FILL = 1 << 9,      /* p2p base, efficiency and sqrt */
};

/* `link` has the constants that are not free, and gets those that are; all
 * rows' clusters get it in `tier`. collective_cost is called with each trial, so rows may be of any collective
 * and any algorithm may win them. */
FitResult fit_link(CollectiveRow *rows, int n, int tier, int mask, Link *link);

/* The same; of what explains the times alike, constants of `near` are as near as may be to what `link` has. */
FitResult fit_link_near(CollectiveRow *rows, int n, int tier, int mask, int near, Link *link);

/* The key of a link's file that has the i-th constant of those that are free; NULL behind the last. */
const char *fit_link_key(int mask, int i);

/* The link's numbers go to the rows' clusters; their names stay as they are. */
void fit_link_set(CollectiveRow *rows, int n, int tier, const Link *link);

/* Errors with the links as they are. */
FitResult fit_link_errors(const CollectiveRow *rows, int n);

#endif
