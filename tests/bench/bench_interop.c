/* Plans drawn at random, their exports and what they mean, a JSON object each: what `make interop` gives to the parsers
 * of the targets. Arguments: how many of tools of PyTorch, which a third as many of JAX's follow, and the seed. */
#include "../interop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_export(const Drawn *d, const char *target, JsonWriter *w)
{
  const Exporter *exporter = exporter_find(target);
  g_autoptr(GPtrArray) losses = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GError) refusal = NULL;
  g_autofree char *text = export_plan(exporter, d->model, d->cluster, &d->plan, losses, &refusal);

  json_open(w, target, '{');
  if (text) {
    g_autofree char *body = interop_body(exporter, text);
    g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, body, -1);
    g_autofree char *line =
      exporter->launch ? launch_line(exporter, d->model, d->cluster, &d->plan, NULL) : g_strdup("");
    json_put_string(w, "text", text);
    json_put_string(w, "sha256", sum);
    json_put_string(w, "launch", line);
  } else {
    json_put_string(w, "refused", refusal->message);
  }
  json_open(w, "losses", '[');
  for (guint i = 0; i < losses->len; i++)
    json_put_string(w, NULL, losses->pdata[i]);
  json_close(w, ']');
  json_close(w, '}');
}

static void put_plan(const Drawn *d, JsonWriter *w)
{
  json_open(w, NULL, '{');
  json_put_string(w, "model", d->model_name);
  json_put_string(w, "plan", d->text);
  json_open(w, "meaning", '{');
  interop_meaning(d, w);
  json_close(w, '}');
  json_open(w, "exports", '{');
  for (int i = 0; d->targets[i]; i++)
    put_export(d, d->targets[i], w);
  json_close(w, '}');
  json_close(w, '}');
}

static void put_plans(int n, guint32 seed, gboolean jax, JsonWriter *w)
{
  GRand *rand = g_rand_new_with_seed(seed);

  for (int i = 0; i < n; i++) {
    Drawn d = interop_draw(rand, jax);
    put_plan(&d, w);
    interop_clear(&d);
  }
  g_rand_free(rand);
}

int main(int argc, char **argv)
{
  int n = argc > 1 ? atoi(argv[1]) : 300;
  guint32 seed = argc > 2 ? (guint32)atoi(argv[2]) : 1;
  g_autoptr(GString) text = g_string_new(NULL);
  JsonWriter w;

  json_writer_init(&w, text);
  json_open(&w, NULL, '[');
  put_plans(n, seed, FALSE, &w);
  put_plans(n / 3, seed, TRUE, &w);
  json_close(&w, ']');
  puts(text->str);
  return 0;
}
