/* Text tables for terminals: columns as wide as their widest cell, numbers to the right. */
#ifndef WEIGHTD_TABLE_H
#define WEIGHTD_TABLE_H

#include <stdint.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 20, TABLE_CELL_MAX = 128 };

struct table;

/* `head`: column titles separated by '|'; one beginning with '>' is aligned to the right. Returns owned; NULL: no
 * memory. */
struct table *table_new(const char *head);
void table_free(struct table *table);

/* Adds the next cell; a full row begins the next. Control characters become '?', too long ones are cut. */
__attribute__((format(printf, 2, 3))) void table_cell(struct table *table, const char *format, ...);
void table_print(const struct table *table, FILE *out);

/* "98.4 MB" (decimal units) and "3 min 20 s" into `text`; return it. */
enum { TABLE_UNIT_TEXT = 32 };
const char *table_bytes(uint64_t bytes, char text[TABLE_UNIT_TEXT]);
const char *table_duration(double seconds, char text[TABLE_UNIT_TEXT]);

#endif
