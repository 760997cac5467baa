#include "mutate.h"

#include <cjson/cJSON.h>
#include <string.h>

/* ---- bytes ---- */

static gsize draw(GRand *rand, gsize below)
{
  return (gsize)g_rand_int_range(rand, 0, (gint32)MAX(below, 1));
}

static void cut(Mutation *m, GRand *rand)
{
  gsize whole = m->text->len;

  while (whole > 0 && g_ascii_isspace(m->text->str[whole - 1]))
    whole--;
  m->change = "cut";
  g_string_truncate(m->text, draw(rand, whole));
}

static void insert_bytes(Mutation *m, GRand *rand, const char *change, const char *bytes, gsize n)
{
  m->change = change;
  g_string_insert_len(m->text, (gssize)draw(rand, m->text->len), bytes, (gssize)n);
}

static void as_utf16(Mutation *m)
{
  GString *wide = g_string_new("\xff\xfe");

  for (gsize i = 0; i < m->text->len; i++) {
    g_string_append_c(wide, m->text->str[i]);
    g_string_append_c(wide, 0);
  }
  g_string_free(m->text, TRUE);
  m->text = wide;
  m->change = "UTF-16";
}

static void flip(Mutation *m, GRand *rand)
{
  m->change = "a byte";
  m->text->str[draw(rand, m->text->len)] = (char)g_rand_int_range(rand, 0, 256);
}

static void mutate_bytes(Mutation *m, GRand *rand)
{
  switch (g_rand_int_range(rand, 0, 6)) {
  case 0: cut(m, rand); break;
  case 1: insert_bytes(m, rand, "a NUL", "", 1); break;
  case 2: insert_bytes(m, rand, "Latin-1", "\xe9", 1); break;
  case 3: as_utf16(m); break;
  case 4: m->change = "nothing"; g_string_truncate(m->text, 0); break;
  default: flip(m, rand);
  }
}

/* ---- JSON ---- */

typedef struct {
  cJSON *item, *parent;
  char *key; /* its own, or that of the array which it is in */
} Node;

/* Not what is in texts for people, nor in what tdp-validate alone reads of frameworks. */
static void collect(GArray *nodes, cJSON *parent, char *above)
{
  for (cJSON *item = parent->child; item; item = item->next) {
    Node node = { item, parent, item->string ? item->string : above };
    if (node.key)
      g_array_append_val(nodes, node);
    if (node.key && !g_str_equal(node.key, "source") && !g_str_equal(node.key, "unstated"))
      collect(nodes, item, node.key);
  }
}

/* A value of another type than the item's. */
static cJSON *other_type(const cJSON *item, GRand *rand)
{
  for (;;) {
    int type = g_rand_int_range(rand, 0, 5);
    if (type == 0 && !cJSON_IsNumber(item))
      return cJSON_CreateNumber(g_rand_int_range(rand, -9, 10));
    if (type == 1 && !cJSON_IsString(item))
      return cJSON_CreateString("text");
    if (type == 2 && !cJSON_IsBool(item))
      return cJSON_CreateTrue();
    if (type == 3 && !cJSON_IsArray(item))
      return cJSON_CreateArray();
    if (type == 4 && !cJSON_IsObject(item))
      return cJSON_CreateObject();
  }
}

static cJSON *other_value(const cJSON *item, GRand *rand, const char **change)
{
  static const double numbers[] = { 0, -1, 1e300, -1e300, 1e-300, 9007199254740993.0, 0.5, 2147483648.0, 1e18 };
  static const char *const words[] = { "", "no such thing", "\033[31m", "\xc2\x9b", "a,b=c", "../../etc/passwd",
                                       "-1", "1e999", "'; rm -rf x; '" };
  int i = g_rand_int_range(rand, 0, G_N_ELEMENTS(numbers));

  if (cJSON_IsNumber(item)) {
    *change = "a number";
    return cJSON_CreateNumber(i == 6 ? item->valuedouble + 0.5 : numbers[i]);
  }
  if (cJSON_IsString(item)) {
    *change = "a word";
    return cJSON_CreateString(words[i]);
  }
  *change = "another type";
  return other_type(item, rand);
}

static void misspell(cJSON *item, GRand *rand)
{
  GString *name = g_string_new(item->string);

  g_string_insert_c(name, (gssize)draw(rand, name->len + 1), (char)('a' + g_rand_int_range(rand, 0, 26)));
  cJSON_free(item->string);
  item->string = (char *)cJSON_malloc(name->len + 1);
  memcpy(item->string, name->str, name->len + 1);
  g_string_free(name, TRUE);
}

static void change_node(Mutation *m, Node *n, GRand *rand)
{
  gboolean named = n->item->string != NULL;

  switch (g_rand_int_range(rand, 0, named ? 6 : 3)) {
  case 0:
    m->change = "another type";
    cJSON_ReplaceItemViaPointer(n->parent, n->item, other_type(n->item, rand));
    break;
  case 1:
  case 2: cJSON_ReplaceItemViaPointer(n->parent, n->item, other_value(n->item, rand, &m->change)); break;
  case 3:
    m->change = "no such key";
    cJSON_Delete(cJSON_DetachItemViaPointer(n->parent, n->item));
    break;
  case 4:
    m->change = "a misspelt key";
    misspell(n->item, rand);
    m->misspelt = g_strdup(n->item->string);
    break;
  default:
    m->change = "a key twice";
    m->refused = TRUE;
    cJSON_AddItemToObject(n->parent, m->key, cJSON_Duplicate(n->item, TRUE));
  }
}

/* Replacing takes the new item's name, which is none; the old one's is kept by hand. */
static void keep_name(cJSON *parent, const char *name)
{
  for (cJSON *item = parent->child; item; item = item->next)
    if (cJSON_IsObject(parent) && !item->string)
      item->string = strcpy((char *)cJSON_malloc(strlen(name) + 1), name);
}

static void mutate_json(Mutation *m, GRand *rand)
{
  cJSON *root = cJSON_Parse(m->text->str);
  g_autoptr(GArray) nodes = g_array_new(FALSE, FALSE, sizeof(Node));

  g_assert(root);
  collect(nodes, root, NULL);
  if (nodes->len > 0) {
    Node n = g_array_index(nodes, Node, draw(rand, nodes->len));
    g_autofree char *name = g_strdup(n.item->string);
    m->key = g_strdup(n.key);
    change_node(m, &n, rand);
    if (name)
      keep_name(n.parent, name);
  }
  char *text = cJSON_PrintUnformatted(root);
  g_string_assign(m->text, text);
  cJSON_free(text);
  cJSON_Delete(root);
}

static void nest(Mutation *m)
{
  m->change = "deep nesting";
  g_string_truncate(m->text, 0);
  for (int i = 0; i < 100000; i++)
    g_string_append_c(m->text, '[');
}

static void break_json(Mutation *m, GRand *rand)
{
  m->refused = TRUE;
  switch (g_rand_int_range(rand, 0, 4)) {
  case 0: nest(m); break;
  case 1: m->change = "text behind"; g_string_append(m->text, "}"); break;
  default:
    mutate_bytes(m, rand);
    m->refused = !g_str_equal(m->change, "a byte");
  }
}

/* ---- CSV ---- */

static void mutate_csv(Mutation *m, GRand *rand)
{
  static const char *const cells[] = { "", "x", "-1", "0", "1e300", "nan", "0x10", "1.5", "\"", "9999999999" };
  g_auto(GStrv) lines = g_strsplit(m->text->str, "\n", -1);
  gsize n = g_strv_length(lines), line = n > 1 && *lines[n - 1] == '\0' ? draw(rand, n - 1) : draw(rand, n);
  g_auto(GStrv) names = g_strsplit(lines[0], ",", -1), row = g_strsplit(lines[line], ",", -1);
  gsize columns = g_strv_length(names), at = draw(rand, MAX(g_strv_length(row), 1));

  if (!row[at])
    return;
  m->key = g_strdup(at < columns ? names[at] : names[columns - 1]);
  m->change = line == 0 ? "a title" : "a cell";
  const char *cell = cells[g_rand_int_range(rand, 0, G_N_ELEMENTS(cells))];
  g_free(row[at]);
  row[at] = g_strdup(line == 0 ? "other" : cell);
  if (g_rand_int_range(rand, 0, 6) == 0) {
    m->change = "a cell more";
    char *more = g_strconcat(row[at], ",1", NULL);
    g_free(row[at]);
    row[at] = more;
  }
  g_free(lines[line]);
  lines[line] = g_strjoinv(",", row);
  g_autofree char *text = g_strjoinv("\n", lines);
  g_string_assign(m->text, text);
}

/* ---- text ---- */

static void mutate_text(Mutation *m, GRand *rand)
{
  static const char *const words[] = { "-1", "1e300", "nan", "99999999999999999999", "''", "$(x)", "\033[31m", "=" };
  g_auto(GStrv) lines = g_strsplit(m->text->str, "\n", -1);
  gsize line = draw(rand, g_strv_length(lines));
  g_auto(GStrv) row = g_strsplit(lines[line] ? lines[line] : "", " ", -1);
  gsize at = draw(rand, g_strv_length(row));

  if (!row[at])
    return;
  m->change = "a word";
  g_free(row[at]);
  row[at] = g_strdup(words[g_rand_int_range(rand, 0, G_N_ELEMENTS(words))]);
  g_free(lines[line]);
  lines[line] = g_strjoinv(" ", row);
  g_autofree char *text = g_strjoinv("\n", lines);
  g_string_assign(m->text, text);
}

void mutate(Mutation *out, const char *text, gsize length, MutateFormat format, GRand *rand)
{
  gboolean bytes = g_rand_int_range(rand, 0, 4) == 0;

  *out = (Mutation) { .text = g_string_new_len(text, (gssize)length), .change = "nothing" };
  if (bytes && format <= FORMAT_FOREIGN)
    break_json(out, rand);
  else if (bytes)
    mutate_bytes(out, rand);
  else if (format <= FORMAT_FOREIGN)
    mutate_json(out, rand);
  else if (format != FORMAT_TEXT)
    mutate_csv(out, rand);
  else
    mutate_text(out, rand);
  if (format == FORMAT_CELLS)
    g_clear_pointer(&out->key, g_free);
  if (format == FORMAT_JSON && g_str_equal(out->change, "a misspelt key"))
    out->refused = TRUE;
}

void mutation_clear(Mutation *mutation)
{
  g_string_free(mutation->text, TRUE);
  g_free(mutation->key);
  g_free(mutation->misspelt);
}
