/*
 * docs/claims.md: claims [--plots DIR] [--only ID] tries every file of
 * tests/claims in the order of tests/claims/order. Exit 1 where a verdict is
 * not the one that the file states; all claims are tried first.
 */
#include "pages/claim.h"

#include "base/error.h"
#include "base/files.h"

#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <string.h>

static const char intro[] =
    "# Claims of the field, simulated\n\n"
    "What papers and documents of DeepSpeed, Megatron, Hugging Face and others say, tried on the simulator: `make claims`\n"
    "writes this page from `tests/claims/*.json`. *Reproduced*: every figure lies within the tolerance that its file states.\n"
    "*Contradicted*: one does not, and the reason is given. *Out of scope*: what it takes is not modelled. No constant is fitted to a claim.\n"
    "A figure without a claimed value is shown for comparison.\n";

static char *path_of(const char *id)
{
  g_autofree char *below = g_strdup_printf("tests/claims/%s.json", id);
  return files_data_path(below);
}

static char **ids(const char *only, GError **error)
{
  gsize length;
  g_autofree char *path = files_data_path("tests/claims/order");
  g_autofree char *text = only ? g_strdup(only) : files_read(path, &length, error);

  return text ? g_strsplit_set(g_strstrip(text), " \n", -1) : NULL;
}

static void write_summary(const GPtrArray *claims, GString *page)
{
  static const char *const verdicts[] = { "reproduced", "contradicted", "out of scope" };

  g_string_append(page, "\n| | claims |\n|---|---|\n");
  for (gsize v = 0; v < G_N_ELEMENTS(verdicts); v++) {
    g_autoptr(GString) row = g_string_new(NULL);
    int n = 0;
    for (guint i = 0; i < claims->len; i++) {
      const Claim *c = g_ptr_array_index(claims, i);
      if (g_str_equal(c->verdict, verdicts[v])) {
        g_string_append_printf(row, "%s%s", n ? ", " : "", c->id);
        n++;
      }
    }
    g_string_append_printf(page, "| %s: %d | %s |\n", verdicts[v], n, row->str);
  }
}

static gboolean try_all(char **names, const char *plots, GPtrArray *claims)
{
  gboolean ok = TRUE;

  for (int i = 0; names[i]; i++) {
    g_autofree char *path = path_of(names[i]);
    GError *error = NULL;
    Claim *c = claim_try(path, &error);
    if (c)
      g_ptr_array_add(claims, c);
    if (!c || (plots && !claim_plot(c, plots, &error))) {
      fprintf(stderr, "claims: %s\n", error->message);
      g_clear_error(&error);
      ok = FALSE;
    }
  }
  return ok;
}

int main(int argc, char **argv)
{
  g_autofree char *plots = NULL, *only = NULL;
  const GOptionEntry entries[] = {
    { "plots", 0, 0, G_OPTION_ARG_FILENAME, &plots, "Draw sweeps into DIR", "DIR" },
    { "only", 0, 0, G_OPTION_ARG_STRING, &only, "Try these claims", "ID ID" },
    G_OPTION_ENTRY_NULL,
  };
  g_autoptr(GOptionContext) context = g_option_context_new(NULL);
  g_autoptr(GPtrArray) claims = g_ptr_array_new_with_free_func((GDestroyNotify)claim_free);
  g_autoptr(GString) page = g_string_new(intro);
  GError *error = NULL;

  gsl_set_error_handler_off();
  g_option_context_add_main_entries(context, entries, NULL);
  g_auto(GStrv) names = g_option_context_parse(context, &argc, &argv, &error) ? ids(only, &error) : NULL;
  if (!names) {
    fprintf(stderr, "claims: %s\n", error->message);
    return 2;
  }
  if (plots)
    g_mkdir_with_parents(plots, 0777);
  gboolean ok = try_all(names, plots, claims);
  write_summary(claims, page);
  for (guint i = 0; i < claims->len; i++)
    claim_write(g_ptr_array_index(claims, i), page);
  fputs(page->str, stdout);
  return ok ? 0 : 1;
}
