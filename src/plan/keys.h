/*
 * The keys of a plan: one table from which follow reading and writing of plan files (plan_keys.c), what `--fix` and
 * `--why-not` take (search/fixed.c), the columns of a certificate (cli/watch.c), what tells a search from another
 * (search/fingerprint.c), the tables of docs/plan.md (tests/pages/page_plan.c) and the test that every exporter writes
 * or names each key (tests/test_export_keys.c).
 *
 * To add a key: a field of Plan, or of a struct in it, with its default in plan_default(), and a row of the table in
 * keys.c, where files have the key in their order. A key that a search chooses also has an entry of PlanKeyId. A switch
 * of passes that not every engine has (`id`, `choice`, PLAN_PASSES) needs no more for the search to offer it, for
 * frameworks to say that they run it and for the executor to refuse it.
 */
#ifndef TDP_PLAN_KEYS_H
#define TDP_PLAN_KEYS_H

#include "plan/plan.h"

/* Keys that a search chooses, in the order of a certificate's columns: those with a short name; layers that are made
 * again stand with the granularity, modules with what takes them. */
typedef enum {
  KEY_OTHER, /* no search chooses it */
  KEY_TP, KEY_PP, KEY_VPP, KEY_SPLIT_RANK, KEY_DP, KEY_CP, KEY_CONTEXT, KEY_CONTEXT_INNER, KEY_EP, KEY_ETP,
  KEY_DISPATCH, KEY_MICRO_BATCH, KEY_SCHEDULE, KEY_ORDER, KEY_TYPES, KEY_ZERO, KEY_SHARD_GROUP, KEY_RESHARD,
  KEY_SECONDARY,
  KEY_OFFLOAD, KEY_OFFLOAD_LAYERS, KEY_OPTIMIZER, KEY_SEQUENCE_PARALLEL, KEY_COMM_CHUNKS, KEY_EXCHANGE, KEY_GRAPH,
  KEY_GRAPH_MODULES,
  KEY_RECOMPUTE, KEY_RECOMPUTE_LAYERS, KEY_RECOMPUTE_MODULES, KEY_WIDE_START, KEY_WIDE_END, KEY_PARAM_GATHER,
  KEY_OVERLAP,
  KEY_COUNT,
} PlanKeyId;

/* What not every engine has: a framework's file lists those that it runs (Framework.choices). A plan takes a choice
 * where its key is not as usual. Switches of passes stand last. */
typedef enum {
  CHOICE_NONE,
  CHOICE_BUCKET, CHOICE_PREFETCH, CHOICE_LIVE, CHOICE_PERSISTENCE, CHOICE_RESHARD, CHOICE_NO_SYNC, CHOICE_HPZ,
  CHOICE_QWZ, CHOICE_QGZ, CHOICE_TILING, CHOICE_BUCKET_VIEW, CHOICE_OFFLOAD_OPTIMIZER, CHOICE_OFFLOAD_PARAMETERS,
  CHOICE_OFFLOAD_ACTIVATIONS, CHOICE_NVME, CHOICE_DELAYED, CHOICE_SUB_GROUP, CHOICE_OFFLOAD_LAYERS, CHOICE_WIDE_START,
  CHOICE_WIDE_END, CHOICE_PARTITION,
  CHOICE_COMM_CHUNKS, CHOICE_COMM_FP8, CHOICE_COUNT,
} PlanChoice;

/* Whether the framework runs it. */
static inline gboolean framework_offers(const Framework *framework, PlanChoice choice)
{
  return framework->choices >> choice & 1;
}

/* A plan as its file says it: what stands otherwise there than in Plan follows it. */
typedef struct {
  Plan plan;
  char *schedule, *framework; /* names */
  DType precision;            /* plan_format() */
} PlanFile;

/* What `--fix` takes for a key. */
typedef enum {
  FIX_NONE,   /* it does not know the key */
  FIX_NUMBER, /* a number of the field's range; of a switch 0 or 1 */
  FIX_COUNT,  /* the same, and 0 for the default */
  FIX_NAME,   /* one of `choices`, or of the field's names */
  FIX_SWITCH, /* the same, and 0 and 1 for the first two */
  FIX_OWN,    /* what fixed.c reads: `choices` says it in words */
} FixKind;

/* How the value of a key is read and written that is no single number or name (key_values.h). */
typedef gboolean KeyRead(const JsonDoc *doc, const cJSON *item, Plan *out, GError **error);
typedef gboolean KeyWrite(const Plan *plan, JsonWriter *writer);

typedef struct {
  JsonField field;     /* name in its object, type, place in PlanFile, range or names; `read` takes JSON_ANY */
  const char *object;  /* key of the object that it stands in; NULL = the plan's own */
  PlanKeyId id;
  const char *shorter; /* short name: of --fix, --why-not and certificates; NULL = none */
  FixKind fix;
  const char *const *choices; /* names that --fix takes in place of the field's, NULL-terminated */
  PlanPart part;       /* of the plan that it belongs to: which rules read it, and whether it changes passes */
  gboolean given;      /* of what a search is asked, which it leaves as it is (plan_given) */
  gboolean always;     /* written whatever its value, else where that is not the default */
  gboolean (*matters)(const Plan *plan); /* written where this holds; NULL = as `always` says */
  gboolean whole;      /* a JSON_REAL that is written without a fraction */
  gboolean negated;    /* a JSON_BOOL of which the plan has the contrary */
  PlanChoice choice;   /* CHOICE_NONE: every engine has it */
  /* Of a switch of passes: it may be on where this holds; NULL = a rule of plan_check() says it. */
  gboolean (*allowed)(const Plan *plan, const Cluster *cluster);
  const char *needs;   /* the same in words */
  KeyRead *read;
  KeyWrite *write;     /* FALSE, or NULL: its object of keys says it */
  const char *unit;    /* what a number counts, or the form of a value without type or names; NULL = none */
  const char *meaning; /* what it does, for docs/plan.md */
  const char *usual;   /* the rule of its default, likewise; NULL = the value that plan_default() gives every plan */
} PlanKey;

/* Ends with a row without field.key; keys of an object stand behind it. */
extern const PlanKey plan_keys[];

/* The row of a key that a search chooses. */
const PlanKey *plan_key_of(PlanKeyId id);

/* The same by its short or its whole name, with dashes or underscores; NULL if there is none. */
const PlanKey *plan_key_named(const char *name);

/* The first of an object's own keys, which stand in a row; NULL if the key is none of an object. */
const PlanKey *plan_key_members(const PlanKey *key);

/* Switches of passes with `allowed`, NULL-terminated; a search turns those with an id on where the framework runs them
 * and they are allowed. */
#define SWITCHES_MAX 8
const PlanKey *const *plan_pass_switches(void);

/* Whether a key of one number or name has the value of plan_default() for an empty model and framework: what a plan has
 * where file, model and framework say nothing. */
gboolean plan_key_is_usual(const PlanKey *key, const Plan *plan);

/* Whether the plan takes a choice; of NVMe, whether anything is there. */
gboolean plan_takes(const Plan *plan, PlanChoice choice);

/* Sets what the choice is made by to its default; of NVMe, to host memory. */
void plan_leave(Plan *plan, PlanChoice choice);

/* As frameworks list it: the key, "offload KEY" where something is stored, "offload nvme". */
const char *plan_choice_name(PlanChoice choice);

/* The plan as its file says it; strings are not newly allocated. */
PlanFile plan_as_file(const Plan *plan);

/* The default plan of the model and the plan's framework with what is given of the plan: batch, lengths, formats,
 * optimizer; what a search for a better one starts from. */
Plan plan_given(const Model *model, const Plan *plan);

#endif
