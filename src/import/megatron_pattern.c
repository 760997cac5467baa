/* Megatron-LM's pattern of layers. */
#include "import/megatron_launch.h"

#include <math.h>
#include <string.h>

#define LAYERS_LISTED 100000 /* as many as a model has at most */

/* Makes `n` of the layers that are Mamba's into `letter`, evenly: before, between and, `last` being FALSE, behind them. */
static void spread(char *letters, int n, char letter, gboolean last)
{
  int others = -n;

  for (const char *c = letters; *c; c++)
    others += *c == 'M';
  double length = (double)others / (n + !last), left = length;
  for (char *c = letters; *c && n > 0; c++) {
    if (*c != 'M')
      continue;
    gboolean here = left < 0.5;
    left += here ? length : -1;
    if (here)
      *c = letter;
  }
}

/* Until Megatron Core 0.17 wanted a pattern: two shares of all layers, the rest are Mamba's
 * (core/ssm/mamba_hybrid_layer_allocation.py). */
static const char *pattern_of_shares(Reading *r)
{
  gboolean mamba = r->from->program && strstr(r->from->program, "mamba");
  double attention = reading_real(r, "hybrid_attention_ratio", 0), mlp = reading_real(r, "hybrid_mlp_ratio", 0);
  int layers = reading_int(r, "num_layers", 0);

  if ((!mamba && attention == 0 && mlp == 0) || layers < 1 || layers > LAYERS_LISTED)
    return "";
  if (!(attention >= 0 && mlp >= 0 && attention + mlp <= 1)) {
    launch_fail(&r->to, "--hybrid-attention-ratio, --hybrid-mlp-ratio: %g, %g: expected shares of the layers", attention, mlp);
    return "";
  }
  g_autofree char *letters = g_strnfill((gsize)layers, 'M');
  spread(letters, (int)rint(layers * attention), '*', FALSE);
  spread(letters, (int)rint(layers * mlp), '-', TRUE);
  return g_intern_string(letters);
}

/* Until Core 0.17 an argument of its own said the layers of each further token's module. */
static const char *with_modules(Reading *r, const char *text)
{
  const char *module = reading_text(r, "mtp_hybrid_override_pattern");
  int modules = reading_int(r, "mtp_num_layers", 0);

  if (!*module || !*text || strchr(text, '/') || modules < 1 || modules > LAYERS_LISTED)
    return text;
  g_autoptr(GString) all = g_string_new(text);
  for (int i = 0; i < modules; i++)
    g_string_append_printf(all, "/%s", module);
  return g_intern_string(all->str);
}

const char *pattern_text(Reading *r)
{
  const char *text = reading_text(r, "hybrid_layer_pattern"), *older = reading_text(r, "hybrid_override_pattern");
  const char *shares = pattern_of_shares(r);

  return with_modules(r, *text ? text : *older ? older : shares);
}

int pattern_stages(const char *pattern, int *layers, int most)
{
  int stages = 0, here = 0;

  for (const char *c = pattern;; c++) {
    gboolean ends = *c == '\0' || *c == '/';
    if (!ends && *c != '|') {
      here++;
      continue;
    }
    if (stages < most)
      layers[stages] = here;
    stages++;
    here = 0;
    if (ends)
      return stages;
  }
}

int pattern_layers(const char *pattern)
{
  int n = 0;

  for (const char *c = pattern; *c && *c != '/'; c++)
    n += *c != '|';
  return n;
}

/* An older pattern had to be as long as --num-layers said; a newer one says it alone, which is warned of. A log lists
 * both, as they were made alike. */
static void check_length(Reading *r, int letters)
{
  const char *text = reading_text(r, "hybrid_layer_pattern"), *older = reading_text(r, "hybrid_override_pattern");
  int layers = reading_int(r, "num_layers", letters);

  if (r->from->listed)
    return;
  if (*text && *older)
    launch_fail(&r->to, "--hybrid-override-pattern: %s: expected without --hybrid-layer-pattern, which replaced it",
                older);
  else if (layers != letters && *older)
    launch_fail(&r->to, "--hybrid-override-pattern: %s: expected the %d layers of --num-layers, not %d", older, layers,
                letters);
  else if (layers != letters && *text)
    launch_assume(&r->to, "layers: the %d of --hybrid-layer-pattern, which overrides the %d of --num-layers", letters,
                  layers);
}

static void put_mamba(Reading *r, JsonWriter *w)
{
  int width = reading_int(r, "mamba_head_dim", 64), hidden = reading_int(r, "hidden_size", 0);

  json_put_string(w, "linear_attention", "mamba2");
  json_put_int(w, "linear_heads", reading_int(r, "mamba_num_heads", width > 0 ? 2 * hidden / width : 0));
  json_put_int(w, "linear_head_dim", width);
  json_put_int(w, "linear_groups", reading_int(r, "mamba_num_groups", 8));
  json_put_int(w, "linear_state", reading_int(r, "mamba_state_dim", 128));
  json_put_int(w, "linear_chunk", 128); /* MambaMixer's, whatever its arguments say */
}

void pattern_put(Reading *r, JsonWriter *w)
{
  g_auto(GStrv) parts = g_strsplit(pattern_text(r), "/", -1); /* the layers, then a module each */
  g_auto(GStrv) stages = g_strsplit(parts[0], "|", -1);
  g_autofree char *letters = g_strjoinv(NULL, stages);
  int modules = (int)g_strv_length(parts) - 1;

  for (int i = 2; i <= modules; i++)
    if (!g_str_equal(parts[i], parts[1]))
      launch_fail(&r->to, "--hybrid-layer-pattern: %s: expected modules for multi-token prediction that are alike",
                  pattern_text(r));
  reading_flag(r, "spec");
  reading_int(r, "mtp_num_layers", 0);
  check_length(r, (int)strlen(letters));
  json_put_string(w, "layer_pattern", letters);
  if (!strchr(letters, 'E') && reading_int(r, "num_experts", 0) > 1)
    launch_assume(&r->to, "no experts: no layer of the pattern has any (E), whatever --num-experts says");
  if (strchr(letters, 'M'))
    put_mamba(r, w);
  if (modules > 0) {
    json_put_int(w, "mtp_num_layers", modules);
    json_put_string(w, "mtp_layer_pattern", parts[1]);
  }
}

/* "*3" behind a list, 1 without it. */
static gint64 times(const char **at)
{
  return **at == '*' ? g_ascii_strtoll(*at + 1, (char **)at, 10) : 1;
}

/* "[0,1]*2": appends its digits; FALSE if that is no such list, or longer than `most` in all. */
static gboolean read_list(const char **at, GString *layers, gsize most)
{
  gsize first = layers->len;

  if (*(*at)++ != '[')
    return FALSE;
  for (; **at == '0' || **at == '1'; *at += **at == ',')
    g_string_append_c(layers, *(*at)++);
  if (*(*at)++ != ']')
    return FALSE;
  g_autofree char *once = g_strdup(layers->str + first);
  gint64 n = times(at);
  g_string_truncate(layers, first);
  for (gint64 i = 0; i < n && *once && layers->len <= most; i++)
    g_string_append(layers, once);
  return layers->len <= most;
}

/* A letter 0 or 1 for each layer; NULL if the text does not say that many. */
static char *spread_list(const char *pattern, int layers)
{
  g_autoptr(GString) all = g_string_new(NULL);
  gboolean enclosed = *pattern == '(';
  const char *at = pattern + enclosed;

  if (layers > LAYERS_LISTED)
    return NULL;
  do {
    if (!read_list(&at, all, (gsize)layers))
      return NULL;
  } while (*at == '+' && at++);
  if (enclosed && *at++ != ')')
    return NULL;
  g_autofree char *once = g_strdup(all->str);
  for (gint64 n = enclosed ? times(&at) : 1; n > 1 && *once && all->len <= (gsize)layers; n--)
    g_string_append(all, once);
  return !*at && all->len == (gsize)layers ? g_strdup(all->str) : NULL;
}

int pattern_first_dense(const char *pattern, int layers)
{
  g_autofree char *all = spread_list(pattern, layers);
  gsize dense = all ? strspn(all, "0") : 0;

  return all && !strchr(all + dense, '0') ? (int)dense : -1;
}

int pattern_every(const char *text, int layers)
{
  char *end;
  gint64 n = g_ascii_strtoll(text, &end, 10);
  g_autofree char *all = *text && !*end ? NULL : spread_list(text, layers);

  if (*text && !*end)
    return n > 0 && n < G_MAXINT ? (int)n : -1;
  if (!all)
    return -1;
  int first = (int)strcspn(all, "0") + 1;
  for (int i = 0; all[i]; i++)
    if ((all[i] == '0') != ((i + 1) % first == 0))
      return -1;
  return all[first - 1] ? first : 0;
}
