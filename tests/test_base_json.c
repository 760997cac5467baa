#include "main.h"

#include <glib/gstdio.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "base/json.h"

static JsonDoc *parsed(const char *text)
{
  GError *error = NULL;
  JsonDoc *doc = json_parse(text, strlen(text), "f", &error);
  ck_assert_msg(doc != NULL, "%s", error ? error->message : "");
  return doc;
}

static void refuses_bytes(const char *text, gsize length, const char *message)
{
  GError *error = NULL;
  ck_assert_msg(json_parse(text, length, "f", &error) == NULL, "accepted %s", text);
  test_error(&error, TDP_ERROR_INPUT, message);
}

static void refuses(const char *text, const char *message)
{
  refuses_bytes(text, strlen(text), message);
}

/* ---- syntax ---- */

START_TEST(valid_text)
{
  static const char *const good[] = {
    "{}", "[]", " [ ] ", "null", "0", "-0", "-0.5e+10", "1E5", "1e-400", "[true,false,null]",
    "\"\"", "\"\\u00e9\\n\\/\\\"\"", "\"\\ud83d\\ude00\"", "\"µ\"", "{\"a\":{\"a\":[{\"a\":1}]}}",
    "\t\r\n1\n"};
  for (gsize i = 0; i < G_N_ELEMENTS(good); i++)
    json_free(parsed(good[i]));
}
END_TEST

START_TEST(trailing_text)
{
  refuses("{} x", "f:1:4: expected the end of the file, found 'x'");
  refuses("{}\n{}", "f:2:1: expected the end of the file, found '{'");
  refuses("1 2", "f:1:3: expected the end of the file, found '2'");
}
END_TEST

START_TEST(syntax)
{
  refuses("", "f:1:1: expected a value, found the end of the file");
  refuses(" \n ", "f:2:2: expected a value, found the end of the file");
  refuses("{\"a\" 1}", "f:1:6: expected ':', found '1'");
  refuses("{\n  \"µ\": 1\n  \"b\": 2\n}", "f:3:3: expected ',' or '}', found '\"'");
  refuses("{\"µµ\": x}", "f:1:8: expected a value, found 'x'");
  refuses("[1 2]", "f:1:4: expected ',' or ']', found '2'");
  refuses("[1, 2,\n]", "f:1:6: comma before ']'");
  refuses("{\"a\": 1,}", "f:1:8: comma before '}'");
  refuses("[,1]", "f:1:2: expected a value, found ','");
  refuses("{a: 1}", "f:1:2: expected a key in double quotes, found 'a'");
  refuses("{'a': 1}", "f:1:2: expected a key in double quotes, found '''");
  refuses("{1: 1}", "f:1:2: expected a key in double quotes, found '1'");
  refuses("[1", "f:1:3: expected ',' or ']', found the end of the file");
  refuses("{", "f:1:2: expected a key in double quotes, found the end of the file");
  refuses("[1}", "f:1:3: expected ',' or ']', found '}'");
  refuses("[tru]", "f:1:2: expected a value, found 'tru'");
  refuses("[truely]", "f:1:2: expected a value, found 'truely'");
  refuses("[True]", "f:1:2: expected a value, found 'True'");
  refuses("[1] // no", "f:1:5: expected the end of the file, found a comment, "
                       "which JSON does not have");
  refuses("[\xC2\xA0 1]", "f:1:2: expected a value, found U+00A0");
}
END_TEST

START_TEST(numbers_of_another_grammar)
{
  refuses("01", "f:1:1: number with a leading zero");
  refuses("{\"a\": -007}", "f:1:7: number with a leading zero");
  refuses("+1", "f:1:1: expected a value, found '+'");
  refuses(".5", "f:1:1: expected a value, found '.'");
  refuses("1.", "f:1:3: expected a digit, found the end of the file");
  refuses("1.e5", "f:1:3: expected a digit, found 'e5'");
  refuses("[1e]", "f:1:4: expected a digit, found ']'");
  refuses("[1e+]", "f:1:5: expected a digit, found ']'");
  refuses("[-]", "f:1:3: expected a digit, found ']'");
  refuses("0x10", "f:1:2: expected the end of the file, found 'x10'");
  refuses("[1_000]", "f:1:3: expected ',' or ']', found '_000'");
}
END_TEST

START_TEST(numbers_beyond_double)
{
  refuses("{\"a\":\n1e400}", "f:2:1: 1e400: number too large");
  refuses("-1e309", "f:1:1: -1e309: number too large");
  refuses("NaN", "f:1:1: expected a value, found 'NaN'");
  refuses("[Infinity]", "f:1:2: expected a value, found 'Infinity'");
  refuses("-inf", "f:1:2: expected a digit, found 'inf'");
  g_autofree char *digits = g_strnfill(64, '1');
  refuses(digits, "f:1:1: number of more than 63 characters");
  json_free(parsed(digits + 1));
}
END_TEST

START_TEST(strings)
{
  refuses("\"a", "f:1:1: string without an end");
  refuses("[\"a\\\"]", "f:1:2: string without an end");
  refuses("\"a\nb\"", "f:1:3: line break inside a string");
  refuses("\"a\tb\"", "f:1:3: control character U+0009 inside a string");
  refuses("{\"\x01\": 1}", "f:1:3: control character U+0001 inside a string");
  refuses("\"\\x\"", "f:1:2: unknown escape in a string");
  refuses("\"\\", "f:1:2: unknown escape in a string");
  refuses("\"\\u12g4\"", "f:1:2: expected four hexadecimal digits after \\u");
  refuses("\"\\u12", "f:1:2: expected four hexadecimal digits after \\u");
  refuses("\"a\\u0000b\"", "f:1:3: \\u0000 is not allowed");
  refuses("\"\\ud83d\"", "f:1:2: half of a surrogate pair");
  refuses("\"\\ude00\"", "f:1:2: half of a surrogate pair");
  refuses("\"\\ud83d\\u0041\"", "f:1:2: half of a surrogate pair");
}
END_TEST

START_TEST(encodings)
{
  refuses_bytes("{\"a\": 1}\n\0{}", 12, "f:2:1: NUL byte");
  refuses_bytes("[\"a\0b\"]", 7, "f:1:4: NUL byte");
  refuses_bytes("1\0", 2, "f:1:2: NUL byte");
  refuses("\xEF\xBB\xBF{}", "f:1:1: starts with a byte order mark, expected UTF-8 without one");
  refuses_bytes("\xFF\xFE{\0}\0", 6, "f:1:1: is UTF-16, expected UTF-8");
  refuses("[\"\xE9\"]", "f:1:3: byte 0xE9 is not valid UTF-8");
  refuses("[\"\xED\xA0\x80\"]", "f:1:3: byte 0xED is not valid UTF-8");
}
END_TEST

START_TEST(text_need_not_end_in_nul)
{
  g_autoptr(JsonDoc) doc = json_parse("[1]garbage", 3, "f", NULL);
  ck_assert_ptr_nonnull(doc);
}
END_TEST

START_TEST(depth)
{
  g_autofree char *open = g_strnfill(501, '[');
  g_autofree char *close = g_strnfill(501, ']');
  g_autofree char *deep = g_strconcat(open, close, NULL);
  refuses(deep, "f:1:501: nested more than 500 levels deep");
  g_autoptr(JsonDoc) doc = json_parse(deep + 1, 1000, "f", NULL);
  ck_assert_ptr_nonnull(doc);
  GString *wide = g_string_new("[0");
  for (int i = 0; i < 600; i++)
    g_string_append(wide, ",[{}]");
  json_free(parsed(g_string_append(wide, "]")->str));
  g_string_free(wide, TRUE);
  g_autofree char *endless = g_strnfill(1000000, '[');
  refuses(endless, "f:1:501: nested more than 500 levels deep");
}
END_TEST

START_TEST(duplicate_keys)
{
  refuses("{\"a\": 1, \"b\": 2, \"a\": 1}", "f: a: duplicate key");
  refuses("{\"tiers\": [{}, {\"x\": {\"y\": 1, \"y\": 2}}]}", "f: tiers[1].x.y: duplicate key");
  refuses("{\"a\": 1, \"\\u0061\": 1}", "f: a: duplicate key");
  refuses("{\"\": 1, \"\": 1}", "f: [\"\"]: duplicate key");
  json_free(parsed("{\"a\": {\"a\": 1}, \"A\": 1, \"b\": [{\"a\": 1}, {\"a\": 1}]}"));
}
END_TEST

START_TEST(loading)
{
  GError *error = NULL;
  ck_assert_ptr_null(json_load("/nowhere/x.json", &error));
  test_error(&error, TDP_ERROR_INPUT, "/nowhere/x.json: No such file or directory");
  ck_assert_ptr_null(json_load("/", &error));
  test_error(&error, TDP_ERROR_INPUT, "/: Is a directory");

  g_autofree char *directory = test_directory();
  g_autofree char *path = g_build_filename(directory, "x.json", NULL);
  ck_assert(g_file_set_contents(path, "{\"a\": 1}\0", 9, NULL));
  g_autofree char *nul = g_strconcat(path, ":1:9: NUL byte", NULL);
  ck_assert_ptr_null(json_load(path, &error));
  test_error(&error, TDP_ERROR_INPUT, nul);

  ck_assert(g_file_set_contents(path, "{\"a\": 1}", 8, NULL));
  g_autoptr(JsonDoc) doc = json_load(path, &error);
  ck_assert_str_eq(json_name(doc), path);
  ck_assert(cJSON_IsObject(json_root(doc)));
  ck_assert_ptr_nonnull(freopen(path, "r", stdin));
  g_autoptr(JsonDoc) piped = json_load("-", &error);
  ck_assert_str_eq(json_name(piped), "stdin");
  g_unlink(path);
  g_rmdir(directory);
}
END_TEST

/* ---- fields ---- */

typedef struct {
  int layers, any_int, at_least, kind;
  double ratio, latency_s, positive, real, huge_flops;
  gboolean tied;
  char *name, *mode;
} Target;

static const char *const KINDS[] = {"gelu", "swiglu", "relu2", NULL};

static const JsonField FIELDS[] = {
  {"layers", JSON_INT, offsetof(Target, layers), .min = 1, .max = 64},
  {"any_int", JSON_INT, offsetof(Target, any_int)},
  {"at_least", JSON_INT, offsetof(Target, at_least), .min = 0, .max = G_MAXINT},
  {"kind", JSON_ENUM, offsetof(Target, kind), .names = KINDS},
  {"ratio", JSON_REAL, offsetof(Target, ratio), .min = 0, .max = 1},
  {"latency_us", JSON_REAL, offsetof(Target, latency_s), .min = 0, .max = INFINITY, .scale = 1e-6},
  {"positive", JSON_REAL, offsetof(Target, positive), .min = G_MINDOUBLE, .max = G_MAXDOUBLE},
  {"real", JSON_REAL, offsetof(Target, real)},
  {"huge_tflops", JSON_REAL, offsetof(Target, huge_flops), .scale = 1e12},
  {"tied", JSON_BOOL, offsetof(Target, tied)},
  {"name", JSON_STRING, offsetof(Target, name)},
  {"mode", JSON_STRING, offsetof(Target, mode), .names = KINDS},
  {"extra", JSON_ANY},
};

static void target_clear(Target *target)
{
  g_free(target->name);
  g_free(target->mode);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Target, target_clear)

static gboolean read_text(const char *text, Target *target, GError **error)
{
  g_autoptr(JsonDoc) doc = parsed(text);
  return json_read(doc, json_root(doc), FIELDS, G_N_ELEMENTS(FIELDS), target, error);
}

static void rejects(const char *text, const char *message)
{
  GError *error = NULL;
  g_auto(Target) target = {0};
  ck_assert_msg(!read_text(text, &target, &error), "accepted %s", text);
  test_error(&error, TDP_ERROR_INPUT, message);
}

START_TEST(fields_are_stored)
{
  GError *error = NULL;
  g_auto(Target) t = {.name = g_strdup("old")};
  gboolean read = read_text("{\"layers\": 64, \"any_int\": -2147483648, \"at_least\": 2147483647,"
                            "\"kind\": \"relu2\", \"ratio\": 0.25, \"latency_us\": 5,"
                            "\"positive\": 1e300, \"real\": -1.5, \"huge_tflops\": 989.5,"
                            "\"tied\": true, \"name\": \"µm\", \"mode\": \"gelu\","
                            "\"extra\": [1]}",
                            &t, &error);
  ck_assert_msg(read, "%s", error ? error->message : "");
  ck_assert_int_eq(t.layers, 64);
  ck_assert_int_eq(t.any_int, G_MININT);
  ck_assert_int_eq(t.at_least, G_MAXINT);
  ck_assert_int_eq(t.kind, 2);
  ck_assert(t.ratio == 0.25 && t.positive == 1e300 && t.real == -1.5);
  ck_assert_double_eq_tol(t.latency_s, 5e-6, 1e-20);
  ck_assert_double_eq_tol(t.huge_flops, 989.5e12, 1);
  ck_assert(t.tied == TRUE);
  ck_assert_str_eq(t.name, "µm");
  ck_assert_str_eq(t.mode, "gelu");
}
END_TEST

START_TEST(absent_and_null_leave_defaults)
{
  g_auto(Target) t = {.layers = 7, .name = g_strdup("old"), .tied = TRUE};
  ck_assert(read_text("{\"layers\": null, \"name\": null, \"extra\": null}", &t, NULL));
  ck_assert_int_eq(t.layers, 7);
  ck_assert_str_eq(t.name, "old");
  ck_assert(t.tied);
  ck_assert(read_text("{\"layers\": 8.0, \"tied\": false, \"any_int\": 1e3}", &t, NULL));
  ck_assert_int_eq(t.layers, 8);
  ck_assert_int_eq(t.any_int, 1000);
  ck_assert(!t.tied);
}
END_TEST

START_TEST(bad_integers)
{
  rejects("{\"layers\": 0}", "f: layers: 0: expected an integer from 1 to 64");
  rejects("{\"layers\": 65}", "f: layers: 65: expected an integer from 1 to 64");
  rejects("{\"layers\": 1.5}", "f: layers: 1.5: expected an integer from 1 to 64");
  rejects("{\"layers\": \"8\"}", "f: layers: \"8\": expected an integer from 1 to 64");
  rejects("{\"layers\": true}", "f: layers: true: expected an integer from 1 to 64");
  rejects("{\"layers\": 1e300}", "f: layers: 1e+300: expected an integer from 1 to 64");
  rejects("{\"at_least\": -1}", "f: at_least: -1: expected an integer of at least 0");
  rejects("{\"at_least\": 2147483648}",
          "f: at_least: 2147483648: expected an integer from 0 to 2147483647");
  rejects("{\"any_int\": 0.5}", "f: any_int: 0.5: expected an integer");
  rejects("{\"any_int\": 2147483648}",
          "f: any_int: 2147483648: expected an integer of at most 2147483647");
  rejects("{\"any_int\": -2147483649}",
          "f: any_int: -2147483649: expected an integer of at least -2147483648");
}
END_TEST

START_TEST(bad_reals)
{
  rejects("{\"ratio\": 1.01}", "f: ratio: 1.01: expected a number from 0 to 1");
  rejects("{\"ratio\": -1e-9}", "f: ratio: -1e-09: expected a number from 0 to 1");
  rejects("{\"ratio\": [1]}", "f: ratio: […]: expected a number from 0 to 1");
  rejects("{\"latency_us\": -1}", "f: latency_us: -1: expected a number of at least 0");
  rejects("{\"positive\": 0}", "f: positive: 0: expected a number above 0");
  rejects("{\"real\": \"x\"}", "f: real: \"x\": expected a number");
  rejects("{\"huge_tflops\": 1e300}",
          "f: huge_tflops: 1e+300: expected a number of at most 1.797693134862316e+296");
  rejects("{\"huge_tflops\": -1e300}",
          "f: huge_tflops: -1e+300: expected a number of at least -1.797693134862316e+296");
}
END_TEST

START_TEST(bad_others)
{
  rejects("{\"tied\": 1}", "f: tied: 1: expected true or false");
  rejects("{\"tied\": \"true\"}", "f: tied: \"true\": expected true or false");
  rejects("{\"name\": \"\"}", "f: name: \"\": expected a non-empty string without control characters");
  rejects("{\"name\": {\"a\": 1}}", "f: name: {…}: expected a non-empty string without control characters");
  rejects("{\"name\": {}}", "f: name: {}: expected a non-empty string without control characters");
  rejects("{\"name\": []}", "f: name: []: expected a non-empty string without control characters");
  rejects("{\"kind\": \"silu\"}", "f: kind: \"silu\": expected one of gelu, swiglu, relu2");
  rejects("{\"kind\": \"GELU\"}", "f: kind: \"GELU\": expected one of gelu, swiglu, relu2");
  rejects("{\"kind\": 0}", "f: kind: 0: expected one of gelu, swiglu, relu2");
  rejects("{\"mode\": \"x\"}", "f: mode: \"x\": expected one of gelu, swiglu, relu2");
  rejects("[1]", "f: […]: expected an object");
  rejects("null", "f: null: expected an object");
}
END_TEST

START_TEST(long_values_are_cut_and_stay_on_one_line)
{
  rejects("{\"kind\": \"a\\nb\"}", "f: kind: \"a\\nb\": expected one of gelu, swiglu, relu2");
  rejects("{\"kind\": \"µµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµ\"}",
          "f: kind: \"µµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµ\": "
          "expected one of gelu, swiglu, relu2");
  rejects("{\"kind\": \"µµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµ\"}",
          "f: kind: \"µµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµµ…\": "
          "expected one of gelu, swiglu, relu2");
}
END_TEST

/* A framework names pairs of features by their keys: 80 characters of one are shown. */
START_TEST(long_keys_are_shown)
{
#define TEN "ten chars "
#define LONG TEN TEN TEN TEN TEN TEN TEN
  static const char text[] = "{\"" LONG TEN "\": 1, \"" LONG TEN "+\": 1}";
  g_autoptr(JsonDoc) doc = json_parse(text, strlen(text), "f", NULL);
  g_autofree char *whole = json_path(doc, json_root(doc)->child), *cut = json_path(doc, json_root(doc)->child->next);

  ck_assert_str_eq(whole, "[\"" LONG TEN "\"]");
  ck_assert_str_eq(cut, "[\"" LONG "ten chars…\"]");
#undef LONG
#undef TEN
}
END_TEST

START_TEST(unknown_keys)
{
  rejects("{\"layer\": 1}", "f: layer: unknown key, did you mean \"layers\"?");
  rejects("{\"Layers\": 1}", "f: Layers: unknown key, did you mean \"layers\"?");
  rejects("{\"num_layers\": 1}", "f: num_layers: unknown key, did you mean \"layers\"?");
  rejects("{\"latency-us\": 1}", "f: latency-us: unknown key, did you mean \"latency_us\"?");
  rejects("{\"layers\": 0, \"b\\nc\": 1}",
          "f: [\"b\\nc\"]: unknown key, known are layers, any_int, at_least, kind, ratio, "
          "latency_us, positive, real, huge_tflops, tied, name, mode, extra");
}
END_TEST

START_TEST(foreign_keys_are_passed_over)
{
  g_autoptr(JsonDoc) doc = parsed("{\"layers\": 3, \"architectures\": [\"x\"]}");
  g_auto(Target) target = {0};
  ck_assert(json_read_foreign(doc, json_root(doc), FIELDS, G_N_ELEMENTS(FIELDS), &target, NULL));
  ck_assert_int_eq(target.layers, 3);
}
END_TEST

static const JsonField REQUIRED[] = {
  {"layers", JSON_INT, offsetof(Target, layers), TRUE, 1, 1000000},
  {"kind", JSON_ENUM, offsetof(Target, kind), TRUE, .names = KINDS},
  {"extra", JSON_ANY, .required = TRUE},
};

static void requires(const char *text, const char *message)
{
  GError *error = NULL;
  Target target = {0};
  g_autoptr(JsonDoc) doc = parsed(text);
  const cJSON *object = cJSON_GetArrayItem(json_get(json_root(doc), "tiers"), 1);
  ck_assert_ptr_nonnull(object);
  ck_assert(!json_read(doc, object, REQUIRED, G_N_ELEMENTS(REQUIRED), &target, &error));
  test_error(&error, TDP_ERROR_INPUT, message);
}

START_TEST(required_keys)
{
  requires("{\"tiers\": [{}, {}]}",
           "f: tiers[1].layers: missing: expected an integer from 1 to 1000000");
  requires("{\"tiers\": [{}, {\"layers\": null}]}",
           "f: tiers[1].layers: null: expected an integer from 1 to 1000000");
  requires("{\"tiers\": [{}, {\"layers\": 1}]}",
           "f: tiers[1].kind: missing: expected one of gelu, swiglu, relu2");
  requires("{\"tiers\": [{}, {\"layers\": 1, \"kind\": \"gelu\"}]}",
           "f: tiers[1].extra: missing: expected a value");
  requires("{\"tiers\": [{}, {\"layers\": 1, \"kind\": \"gelu\", \"extra\": null}]}",
           "f: tiers[1].extra: null: expected a value");
  requires("{\"tiers\": [{}, 5]}", "f: tiers[1]: 5: expected an object");
}
END_TEST

/* ---- members, arrays, paths ---- */

START_TEST(members)
{
  GError *error = NULL;
  g_autoptr(JsonDoc) doc = parsed("{\"o\": {\"x\": 1}, \"a\": [1], \"n\": null}");
  const cJSON *root = json_root(doc);
  ck_assert_ptr_nonnull(json_get(root, "o"));
  ck_assert_ptr_null(json_get(root, "O"));
  ck_assert_ptr_null(json_get(root, "n"));
  ck_assert_ptr_null(json_get(json_get(root, "a"), "x"));
  ck_assert_ptr_nonnull(json_get_object(doc, root, "o", TRUE, &error));
  ck_assert_ptr_nonnull(json_get_array(doc, root, "a", TRUE, &error));
  ck_assert_ptr_null(json_get_array(doc, root, "x", FALSE, &error));
  ck_assert_ptr_null(json_get_array(doc, root, "n", FALSE, &error));
  ck_assert_ptr_null(error);

  ck_assert_ptr_null(json_get_array(doc, root, "o", FALSE, &error));
  test_error(&error, TDP_ERROR_INPUT, "f: o: {…}: expected an array");
  ck_assert_ptr_null(json_get_object(doc, root, "a", FALSE, &error));
  test_error(&error, TDP_ERROR_INPUT, "f: a: […]: expected an object");
  ck_assert_ptr_null(json_get_object(doc, root, "x", TRUE, &error));
  test_error(&error, TDP_ERROR_INPUT, "f: x: missing: expected an object");
  ck_assert_ptr_null(json_get_array(doc, root, "n", TRUE, &error));
  test_error(&error, TDP_ERROR_INPUT, "f: n: null: expected an array");
}
END_TEST

START_TEST(arrays)
{
  GError *error = NULL;
  double reals[3] = {0};
  int ints[3] = {0};
  g_autoptr(JsonDoc) doc = parsed("{\"r\": [1, 2.5], \"i\": [3, 4, 5], \"bad\": [1, \"x\"],"
                                  "\"e\": []}");
  const cJSON *root = json_root(doc);
  ck_assert_int_eq(json_get_reals(doc, json_get(root, "r"), reals, 3, &error), 2);
  ck_assert(reals[0] == 1 && reals[1] == 2.5 && reals[2] == 0);
  ck_assert_int_eq(json_get_ints(doc, json_get(root, "i"), ints, 3, 1, 5, &error), 3);
  ck_assert(ints[0] == 3 && ints[1] == 4 && ints[2] == 5);
  ck_assert_int_eq(json_get_ints(doc, json_get(root, "e"), ints, 3, 0, 0, &error), 0);
  ck_assert_ptr_null(error);

  ck_assert_int_eq(json_get_ints(doc, json_get(root, "i"), ints, 3, 1, 4, &error), -1);
  test_error(&error, TDP_ERROR_INPUT, "f: i[2]: 5: expected an integer from 1 to 4");
  ck_assert_int_eq(json_get_ints(doc, json_get(root, "i"), ints, 2, 0, 0, &error), -1);
  test_error(&error, TDP_ERROR_INPUT, "f: i: […]: expected an array of at most 2 integers");
  ck_assert_int_eq(json_get_ints(doc, json_get(root, "r"), ints, 3, 0, 0, &error), -1);
  test_error(&error, TDP_ERROR_INPUT, "f: r[1]: 2.5: expected an integer");
  ck_assert_int_eq(json_get_reals(doc, json_get(root, "bad"), reals, 3, &error), -1);
  test_error(&error, TDP_ERROR_INPUT, "f: bad[1]: \"x\": expected a number");
  ck_assert_int_eq(json_get_reals(doc, root, reals, 3, &error), -1);
  test_error(&error, TDP_ERROR_INPUT, "f: {…}: expected an array of numbers");
}
END_TEST

START_TEST(paths)
{
  g_autoptr(JsonDoc) doc = parsed("{\"a\": [0, [{\"b\": {\"c.d\": 1}}]]}");
  const cJSON *inner = cJSON_GetArrayItem(json_get(json_root(doc), "a"), 1);
  const cJSON *b = json_get(cJSON_GetArrayItem(inner, 0), "b");
  test_text(json_path(doc, json_root(doc)), "");
  test_text(json_path(doc, inner), "a[1]");
  test_text(json_path(doc, b), "a[1][0].b");
  test_text(json_path(doc, b->child), "a[1][0].b[\"c.d\"]");
}
END_TEST

START_TEST(own_errors)
{
  GError *error = NULL;
  g_autoptr(JsonDoc) doc = parsed("{\"tp\": 3}");
  ck_assert(!json_error(doc, json_get(json_root(doc), "tp"), &error, "a divisor of %d", 8));
  test_error(&error, TDP_ERROR_INPUT, "f: tp: 3: expected a divisor of 8");
  ck_assert(!json_error(doc, NULL, &error, "more"));
  test_error(&error, TDP_ERROR_INPUT, "f: missing: expected more");
}
END_TEST

TEST_MAIN("json", valid_text, trailing_text, syntax, numbers_of_another_grammar,
          numbers_beyond_double, strings, encodings, text_need_not_end_in_nul, depth,
          duplicate_keys, loading, fields_are_stored, absent_and_null_leave_defaults, bad_integers,
          bad_reals, bad_others, long_values_are_cut_and_stay_on_one_line, long_keys_are_shown, unknown_keys,
          foreign_keys_are_passed_over, required_keys, members, arrays, paths, own_errors)
