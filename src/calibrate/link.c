/* Which constants of a link the points tell, and their fit. */
#include <math.h>

#include "base/error.h"
#include "calibrate/link.h"
#include "calibrate/machine.h"

const LinkConstant link_constants[] = {
  {"base_us", FIT_LINK_BASE, .probe = 5e-6, .probe_share = 0.2},
  {"hop_us", FIT_LINK_HOP, .probe = 1e-6, .probe_share = 0.2},
  {"tree_hop_us", FIT_LINK_TREE, .probe_share = -0.2},
  {"efficiency", FIT_LINK_RATE, .probe_share = -0.1},
  {"sqrt_us_per_sqrt_byte", FIT_LINK_RATE},
  {"p2p_base_us", FIT_LINK_P2P, .probe = 5e-6, .probe_share = 0.2},
  {"p2p_efficiency", FIT_LINK_P2P, .probe_share = -0.1},
  {"in_switch_base_us", FIT_LINK_IN_SWITCH},
  {"in_switch_efficiency", FIT_LINK_IN_SWITCH, .probe_share = -0.1},
  {"in_switch_sqrt_us_per_sqrt_byte", FIT_LINK_IN_SWITCH},
  {NULL},
};

/* A constant is told by the points if its probe moves at least so many times by so much. */
#define TOLD_POINTS 3
#define TOLD_SHARE 0.05

/* What stays near its start: where a switch adds, what it hides. */
#define NEAR(mask) ((mask) & FIT_LINK_IN_SWITCH ? FIT_LINK_BASE | FIT_LINK_RATE | FIT_LINK_IN_SWITCH : 0)
#define NOTICED_SHARE 0.001 /* a row that moves by less does not hold a constant */
#define SETTLE_STEPS 30

#define HELD_OUT_POINTS_MIN 12 /* fewer are all fitted, with none to check */
#define POINTS_A_CONSTANT 2

typedef struct {
  CollectiveRow *rows;
  int n, tier;
} Rows;

double link_constant_get(const Link *link, const LinkConstant *constant)
{
  return G_STRUCT_MEMBER(double, link, link_field(constant->key)->offset);
}

static double *constant_of(Link *link, const LinkConstant *constant)
{
  return &G_STRUCT_MEMBER(double, link, link_field(constant->key)->offset);
}

/* ---- points to rows ---- */

/* Curves count alike: each row by one over the rows of its curve. */
static void weigh(Rows *rows)
{
  for (int i = 0; i < rows->n; i++) {
    CollectiveRow *row = &rows->rows[i];
    int n = 0;
    for (int j = 0; j < rows->n; j++)
      n += rows->rows[j].collective == row->collective && rows->rows[j].cluster == row->cluster &&
           rows->rows[j].group.size == row->group.size;
    row->weight = 1.0 / n;
  }
}

static gboolean place_rows(Rows *rows, Machine *machine, const LinkPoint *points, GError **error)
{
  for (int i = 0; i < rows->n; i++) {
    const LinkPoint *point = &points[i];
    g_assert(point->bytes > 0 && point->seconds > 0);
    CollectiveRow *row = &rows->rows[i];
    *row = (CollectiveRow){.collective = point->collective, .bytes = point->bytes, .seconds = point->seconds};
    row->cluster = machine_place(machine, point, &row->group, error);
    if (!row->cluster)
      return FALSE;
    int tier = group_tier(row->cluster, &row->group);
    if (i == 0)
      rows->tier = tier;
    if (tier != rows->tier)
      return input_error(error, "%s: ranks meet in tier \"%s\", those of %s in \"%s\": expected files of one link",
                         point->file, row->cluster->tiers[tier].name, points[0].file,
                         row->cluster->tiers[rows->tier].name);
  }
  weigh(rows);
  return TRUE;
}

/* ---- what the points tell ---- */

static double row_s(const CollectiveRow *row)
{
  return collective_cost(row->cluster, row->collective, row->bytes, &row->group).seconds;
}

/* Rows whose times differ by a share of what was measured. The clusters have `link`, before and after. */
static int rows_apart(const Rows *rows, const Link *link, const Link *other, double share)
{
  g_autofree double *before = g_new(double, (gsize)rows->n);
  int apart = 0;

  for (int i = 0; i < rows->n; i++)
    before[i] = row_s(&rows->rows[i]);
  fit_link_set(rows->rows, rows->n, rows->tier, other);
  for (int i = 0; i < rows->n; i++)
    apart += fabs(row_s(&rows->rows[i]) - before[i]) >= share * rows->rows[i].seconds;
  fit_link_set(rows->rows, rows->n, rows->tier, link);
  return apart;
}

static gboolean is_told(const Rows *rows, const Link *link, const LinkConstant *constant)
{
  Link probe = *link;
  double *value = constant_of(&probe, constant);

  *value += constant->probe + constant->probe_share * *value;
  return rows_apart(rows, link, &probe, TOLD_SHARE) >= TOLD_POINTS;
}

/* Steps of a ring, once or twice around; a hop's time is told from the fixed
 * time only by rows that differ in it. */
static int ring_hops(const CollectiveRow *row)
{
  if (row->collective == COLLECTIVE_SEND || row->collective == COLLECTIVE_ALL_TO_ALL)
    return 0;
  return (row->group.size - 1) * (row->collective == COLLECTIVE_ALL_REDUCE ? 2 : 1);
}

static gboolean hops_differ(const Rows *rows)
{
  int first = 0;
  for (int i = 0; i < rows->n; i++) {
    int hops = ring_hops(&rows->rows[i]);
    if (hops && first && hops != first)
      return TRUE;
    first = hops ? hops : first;
  }
  return FALSE;
}

static gboolean nodes_differ(const Rows *rows)
{
  for (int i = 1; i < rows->n; i++)
    if (rows->rows[i].cluster->nodes != rows->rows[0].cluster->nodes)
      return TRUE;
  return FALSE;
}

static int told_constants(const Rows *rows, const Link *link)
{
  int mask = FIT_LINK_BASE | FIT_LINK_RATE | FIT_LINK_P2P;
  if (link->in_switch)
    mask |= FIT_LINK_IN_SWITCH;
  if (hops_differ(rows))
    mask |= FIT_LINK_HOP;
  if (nodes_differ(rows))
    mask |= FIT_LINK_TREE;
  for (const LinkConstant *c = link_constants; c->key; c++)
    if ((mask & c->mask) && (c->probe != 0 || c->probe_share != 0) && !is_told(rows, link, c))
      mask &= ~c->mask;
  return mask;
}

/* ---- the fit ---- */

static int count_constants(int mask)
{
  int constants = 0;

  for (const LinkConstant *c = link_constants; c->key; c++)
    constants += (c->mask & mask) != 0;
  return constants;
}

static gboolean check_count(const Rows *rows, const char *file, int mask, GError **error)
{
  int constants = count_constants(mask);

  if (constants > 0 && rows->n >= POINTS_A_CONSTANT * constants)
    return TRUE;
  if (constants == 0)
    input_error(error, "%s: %d points tell no constant of the link: expected sizes from a few bytes to hundreds of MB",
                file, rows->n);
  else
    input_error(error, "%s: %d points: expected at least %d, to fit %d constants", file, rows->n,
                POINTS_A_CONSTANT * constants, constants);
  return FALSE;
}

/* Fits two thirds and asks the others. */
static FitErrors held_out_errors(Rows *rows, int mask, const Link *start)
{
  if (rows->n < HELD_OUT_POINTS_MIN)
    return (FitErrors){0};
  for (int i = 0; i < rows->n; i++) {
    CollectiveRow *row = &rows->rows[i];
    double key[] = {row->collective, row->cluster->nodes, row->group.size, row->bytes};
    row->check = fit_is_check(key, G_N_ELEMENTS(key));
  }
  Link link = *start;
  FitErrors errors = fit_link_near(rows->rows, rows->n, rows->tier, mask, NEAR(mask), &link).check;
  for (int i = 0; i < rows->n; i++)
    rows->rows[i].check = FALSE;
  return errors;
}

static void fill(LinkCalibration *out, const Rows *rows, const Link *link, const char *like)
{
  out->link = *link;
  out->link.name = g_strdup(link->name);
  out->like = g_strdup(like);
  out->bytes_per_s = rows->rows[0].cluster->tiers[rows->tier].bytes_per_s;
  out->n = rows->n;
  out->fitted_s = g_new(double, (gsize)rows->n);
  out->algorithms = g_new(const char *, (gsize)rows->n);
  for (int i = 0; i < rows->n; i++) {
    const CollectiveRow *row = &rows->rows[i];
    CollectiveCost cost = collective_cost(row->cluster, row->collective, row->bytes, &row->group);
    out->fitted_s[i] = cost.seconds;
    out->algorithms[i] = cost.algorithm;
  }
}

/* Whether rows tell a constant, or one of its bit where it has no probe. */
static gboolean is_held(const Rows *rows, const Link *link, const LinkConstant *constant)
{
  for (const LinkConstant *c = link_constants; c->key; c++)
    if (c->mask == constant->mask && is_told(rows, link, c))
      return TRUE;
  return FALSE;
}

/* The others may be fitted such that no row tells a constant any more, or only that it is not less: a ring's fixed time
 * where the switch is faster at every size. It is then as near to its start as no row notices. Returns the bits of those
 * that are not at their start. */
static int settle_untold(const Rows *rows, int mask, const Link *start, Link *link)
{
  const Link fitted = *link;
  int told = 0;

  fit_link_set(rows->rows, rows->n, rows->tier, &fitted);
  for (const LinkConstant *c = link_constants; c->key; c++) {
    Link trial = *link;
    double value = link_constant_get(&fitted, c), from = link_constant_get(start, c), kept = 1, lost = 0;
    if (!(mask & c->mask))
      continue;
    int steps = is_held(rows, &fitted, c) ? 0 : SETTLE_STEPS;
    for (int i = 0; i < steps && kept > 0; i++) {
      double share = i == 0 ? 0 : (lost + kept) / 2;
      *constant_of(&trial, c) = from + share * (value - from);
      *(rows_apart(rows, &fitted, &trial, NOTICED_SHARE) ? &lost : &kept) = share;
    }
    *constant_of(link, c) = kept < 1 ? from + kept * (value - from) : value;
    told |= kept > 0 ? c->mask : 0;
  }
  fit_link_set(rows->rows, rows->n, rows->tier, link);
  return told;
}

/* Where the switch adds, rows say of a ring that it is not faster: of all that keep it so the nearest to the start. Its
 * rate is then as free as its fixed time, for one of them alone would be far off. */
static int with_ring_rate(const Rows *rows, int mask)
{
  int more = mask | FIT_LINK_RATE;
  return (mask & FIT_LINK_IN_SWITCH) && rows->n >= POINTS_A_CONSTANT * count_constants(more) ? more : mask;
}

static gboolean fit_rows(Rows *rows, Machine *machine, const LinkPoint *points, LinkCalibration *out, GError **error)
{
  if (!place_rows(rows, machine, points, error) ||
      !machine_start(machine, &rows->rows[0].cluster->tiers[rows->tier].link, error))
    return FALSE;
  Link start = machine->link;
  fit_link_set(rows->rows, rows->n, rows->tier, &start);
  int mask = told_constants(rows, &start);
  if (mask & FIT_LINK_P2P) /* what is fitted here is of one protocol, whose fill is the rings' */
    start.p2p_sqrt_s_per_byte = start.short_bytes_per_s = 0;
  Link link = start;
  if (!check_count(rows, points[0].file, mask, error))
    return FALSE;
  mask = with_ring_rate(rows, mask);
  *out = (LinkCalibration){.held_out = held_out_errors(rows, mask, &start)};
  fit_link_near(rows->rows, rows->n, rows->tier, mask, NEAR(mask), &link);
  out->fitted = settle_untold(rows, mask, &start, &link);
  out->errors = fit_link_errors(rows->rows, rows->n).fit;
  fill(out, rows, &link, machine->like);
  return TRUE;
}

gboolean calibrate_link(const LinkPoint *points, int n, const LinkSetup *setup, LinkCalibration *out, GError **error)
{
  g_auto(Machine) machine = {0};
  g_assert(n > 0);
  if (!machine_init(&machine, setup, error))
    return FALSE;
  Rows rows = {.rows = g_new0(CollectiveRow, (gsize)n), .n = n};
  gboolean done = fit_rows(&rows, &machine, points, out, error);
  g_free(rows.rows);
  return done;
}

void link_calibration_clear(LinkCalibration *calibration)
{
  g_free(calibration->link.name);
  g_free(calibration->like);
  g_free(calibration->fitted_s);
  g_free(calibration->algorithms);
  *calibration = (LinkCalibration){0};
}
