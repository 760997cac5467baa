/* A page as its sections; private to report. */
#ifndef TDP_REPORT_PAGE_SECTIONS_H
#define TDP_REPORT_PAGE_SECTIONS_H

#include "report/page.h"

struct Page {
  char *title, *subtitle;
  GString *json;     /* sections, as members of an open array of `writer` */
  JsonWriter writer; /* of `json` */
  GString *markdown;
};

/* Opens a section in both forms; the caller adds members to the page's writer and text to its Markdown, and ends it. */
void page_begin(Page *page, const char *kind, const char *heading);
void page_end(Page *page);

/* page_table() without its end: the caller may add members. */
void page_open_table(Page *page, const char *heading, const char *says, const Table *table);

/* A table in Markdown alone. */
void page_markdown_table(Page *page, const Table *table);

/* Text between lines of a fence longer than any in it. */
void page_fenced(Page *page, const char *text);

/* 0xRRGGBB as "#rrggbb". */
void page_put_color(Page *page, const char *key, guint32 rgb);

#endif
