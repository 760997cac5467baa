/*
 * Typed reading of JSON files, and writing.
 *
 * cJSON parses; this module closes what cJSON lets through: trailing text,
 * duplicate keys, numbers that overflow to infinity or break the grammar (01),
 * raw control characters, a NUL inside the file, case-insensitive keys,
 * saturated integers. A file is read into a JsonDoc,
 * and an object of it into a struct by a table of JsonFields.
 *
 * Every error is TDP_ERROR_INPUT and one line: file, path of the key (for
 * example tiers[1].latency_us), the value found, and what was expected. A key
 * that no field names is an error that suggests the nearest known key.
 */
#ifndef TDP_BASE_JSON_H
#define TDP_BASE_JSON_H

#include <cjson/cJSON.h>
#include <glib.h>

/* A parsed file: owns its cJSON tree. */
typedef struct JsonDoc JsonDoc;

/* Reads a file ("-" is stdin); NULL and an error if it is missing or not JSON. */
JsonDoc *json_load(const char *path, GError **error);

/* Parses text; `name` stands for the file in messages. */
JsonDoc *json_parse(const char *text, gsize length, const char *name, GError **error);
void json_free(JsonDoc *doc);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(JsonDoc, json_free)

const cJSON *json_root(const JsonDoc *doc);

/* Adds all that a file says, in whatever order its keys stand and however it is laid out, to a sum that tells what
 * was loaded from what would have been loaded from other files. */
void json_digest(const JsonDoc *doc, GChecksum *sum);

/* Such a sum as text, of SHA-256, as structs keep it that were loaded; empty where no file was read. */
#define JSON_DIGEST_CHARS 65
void json_digest_text(const GChecksum *sum, char text[JSON_DIGEST_CHARS]);
const char *json_name(const JsonDoc *doc);

typedef enum {
  JSON_INT,    /* int; an integral number */
  JSON_REAL,   /* double; finite */
  JSON_BOOL,   /* gboolean */
  JSON_STRING, /* char *, newly allocated, never empty */
  JSON_ENUM,   /* int, index of the string in `names` */
  JSON_ANY,    /* known key whose value the caller reads; nothing is stored */
} JsonType;

/*
 * One key of an object. A field with `names` lists the accepted strings,
 * NULL-terminated. Bounds are inclusive and in the file's unit; both zero
 * means any. `scale` (0 means 1) turns the file's unit into the base unit.
 * A key that is absent leaves the struct as it was, so defaults are set first;
 * null counts as absent unless the field is required. `optional` is for callers
 * that themselves ask some files for all their keys; nothing here reads it.
 */
typedef struct {
  const char *key;
  JsonType type;
  gsize offset;
  gboolean required;
  double min, max;
  double scale;
  const char *const *names;
  gboolean optional;
} JsonField;

/* Fills `out` from `object`; on error `out` may be partly filled (strings that
 * were replaced are freed, those set belong to `out`). */
gboolean json_read(const JsonDoc *doc, const cJSON *object, const JsonField *fields, gsize n_fields,
                   gpointer out, GError **error);

/* The same, but keys that no field names are passed over (foreign files). */
gboolean json_read_foreign(const JsonDoc *doc, const cJSON *object, const JsonField *fields,
                           gsize n_fields, gpointer out, GError **error);

/* A JSON_REAL field's value in a struct that such a table fills, in the file's unit. */
static inline double json_field_real(const JsonField *field, gconstpointer from)
{
  return G_STRUCT_MEMBER(double, from, field->offset) / (field->scale ? field->scale : 1);
}

/* The member of an object, NULL if absent or null. Case-sensitive. */
const cJSON *json_get(const cJSON *object, const char *key);

/* The member's text, NULL if it is no string. */
const char *json_get_text(const cJSON *object, const char *key);

/* The member as an object or array; NULL and no error if absent and not
 * required, NULL and an error if it has another type. */
const cJSON *json_get_object(const JsonDoc *doc, const cJSON *object, const char *key,
                             gboolean required, GError **error);
const cJSON *json_get_array(const JsonDoc *doc, const cJSON *object, const char *key,
                            gboolean required, GError **error);

/* Array of numbers into `out` (at most `max`); returns the count, -1 on error. */
int json_get_reals(const JsonDoc *doc, const cJSON *array, double *out, int max, GError **error);
int json_get_ints(const JsonDoc *doc, const cJSON *array, int *out, int max, double min_value,
                  double max_value, GError **error);

/* Where an item stands, for example "tiers[1].latency_us"; newly allocated. */
char *json_path(const JsonDoc *doc, const cJSON *item);

/* Sets "FILE: PATH: VALUE: expected EXPECTED" and returns FALSE. */
gboolean json_error(const JsonDoc *doc, const cJSON *item, GError **error, const char *expected, ...)
    G_GNUC_PRINTF(4, 5);

/* Sets "FILE: PATH.KEY: missing: expected EXPECTED" for a key of an object and returns FALSE. */
gboolean json_missing(const JsonDoc *doc, const cJSON *object, const char *key, const char *expected, GError **error);

/* Index of `name` in a NULL-terminated list, -1 if it is not there. */
int names_find(const char *const *names, const char *name);

/* A set of them, of which bit i is entry i, joined by +: read, 0 where an entry is none of them or stands there twice; and
 * appended behind `before`, nothing where the set is empty. */
guint names_parse_set(const char *const *names, const char *text);
void names_append_set(const char *const *names, guint set, const char *before, GString *text);

/* A set of them joined by `between`; newly allocated. */
char *names_joined(const char *const *names, guint set, const char *between);

/* The entry of a NULL-terminated list that is nearest in spelling, however far
 * that is: one that has all runs of letters and of digits of the name in their order, as "llama-3.1-8b" has those of
 * "llama3-8b", else the one with the fewest edits, of these the one that begins most alike; NULL if the list is empty. */
const char *names_nearest(const char *const *names, const char *name);

/* Whether one name is near enough to the other to have been meant. */
gboolean names_near(const char *a, const char *b);

/* For messages: `did you mean "layers"?` if an entry is near, else
 * `known are layers, hidden`; newly allocated, NULL if the list is empty. */
char *names_hint(const char *const *names, const char *name);

/* For messages that say what is expected before: `; did you mean "layers"?` if an entry is near, else nothing; newly
 * allocated. */
char *names_meant(const char *const *names, const char *name);

/*
 * Writing: a cursor that appends to a string, indented by two spaces, keys in
 * the order of the calls. `key` is NULL inside arrays and at the root. Reals
 * are written with the fewest digits that read back as the same double, and
 * must be finite; a NULL string is written as null. Closing the root ends the
 * line. json_open_line and json_close_line keep an array or object, with all that
 * is in it, on one line; `compact` set from the start keeps the whole text on one.
 */
typedef struct {
  GString *text;
  int depth;
  gboolean first;
  gboolean compact; /* what follows is on one line */
} JsonWriter;

void json_writer_init(JsonWriter *w, GString *text);
void json_open(JsonWriter *w, const char *key, char bracket); /* '{' or '[' */
void json_close(JsonWriter *w, char bracket);                 /* '}' or ']' */
void json_open_line(JsonWriter *w, const char *key, char bracket);
void json_close_line(JsonWriter *w, char bracket);
void json_put_real(JsonWriter *w, const char *key, double value);
void json_put_int(JsonWriter *w, const char *key, gint64 value);

/* value / 1000 with three decimals, exact: 1234567 is written as 1234.567. */
void json_put_thousandths(JsonWriter *w, const char *key, gint64 value);
void json_put_bool(JsonWriter *w, const char *key, gboolean value);
void json_put_string(JsonWriter *w, const char *key, const char *value);
void json_put_strings(JsonWriter *w, const char *key, const char *const *texts, gsize n); /* a list, a line each */

/* A list of names, those of a set of which bit i is entry i, on a line; nothing where it is empty. */
void json_put_set(JsonWriter *w, const char *key, const char *const *names, guint set);

/* A value as it was read, with all that it holds. */
void json_put_item(JsonWriter *w, const char *key, const cJSON *item);

#endif
