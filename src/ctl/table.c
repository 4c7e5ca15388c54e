#include "src/ctl/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct row {
	char cell[TABLE_COLUMNS_MAX][TABLE_CELL_MAX];
};

struct table {
	unsigned n_columns;
	bool right[TABLE_COLUMNS_MAX];
	struct row *rows;	       /* the first is the head */
	unsigned n_rows, capacity, at; /* at: next cell's column in the last row; n_columns: the row is full */
	bool failed;		       /* no memory: later cells are dropped */
};

static struct row *add_row(struct table *table)
{
	if (table->n_rows == table->capacity) {
		unsigned larger = table->capacity ? 2 * table->capacity : 8;
		struct row *grown = realloc(table->rows, larger * sizeof *grown);
		if (!grown) {
			table->failed = true;
			return NULL;
		}
		table->rows = grown;
		table->capacity = larger;
	}
	struct row *row = &table->rows[table->n_rows++];
	memset(row, 0, sizeof *row);
	table->at = 0;
	return row;
}

struct table *table_new(const char *head)
{
	struct table *table = calloc(1, sizeof *table);
	struct row *row = table ? add_row(table) : NULL;
	if (!row) {
		table_free(table);
		return NULL;
	}
	while (table->n_columns < TABLE_COLUMNS_MAX) {
		size_t n = strcspn(head, "|");
		table->right[table->n_columns] = head[0] == '>';
		unsigned skip = head[0] == '>';
		snprintf(row->cell[table->n_columns++], TABLE_CELL_MAX, "%.*s", (int)(n - skip), head + skip);
		if (!head[n])
			break;
		head += n + 1;
	}
	table->at = table->n_columns;
	return table;
}

void table_free(struct table *table)
{
	if (table)
		free(table->rows);
	free(table);
}

void table_cell(struct table *table, const char *format, ...)
{
	if (table->at == table->n_columns && !add_row(table))
		return;
	if (table->failed)
		return;
	char *cell = table->rows[table->n_rows - 1].cell[table->at++];
	va_list args;
	va_start(args, format);
	vsnprintf(cell, TABLE_CELL_MAX, format, args);
	va_end(args);
	for (char *p = cell; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
}

void table_print(const struct table *table, FILE *out)
{
	int width[TABLE_COLUMNS_MAX] = {0};
	for (unsigned i = 0; i < table->n_rows; i++)
		for (unsigned column = 0; column < table->n_columns; column++) {
			int n = (int)strlen(table->rows[i].cell[column]);
			if (n > width[column])
				width[column] = n;
		}
	for (unsigned i = 0; i < table->n_rows; i++) {
		for (unsigned column = 0; column < table->n_columns; column++) {
			const char *cell = table->rows[i].cell[column];
			bool last = column + 1 == table->n_columns;
			fprintf(out, "%s%*s", column ? "  " : "",
				table->right[column] ? width[column]
				: last		     ? 0
						     : -width[column],
				cell);
		}
		fputc('\n', out);
	}
}

const char *table_bytes(uint64_t bytes, char text[TABLE_UNIT_TEXT])
{
	static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
	if (bytes < 1000) {
		snprintf(text, TABLE_UNIT_TEXT, "%u B", (unsigned)bytes);
		return text;
	}
	double scaled = (double)bytes / 1000;
	unsigned unit = 0;
	while (scaled >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
		scaled /= 1000;
		unit++;
	}
	snprintf(text, TABLE_UNIT_TEXT, scaled < 99.95 ? "%.1f %s" : "%.0f %s", scaled, units[unit]);
	return text;
}

const char *table_duration(double seconds, char text[TABLE_UNIT_TEXT])
{
	unsigned long s = seconds > 0 && seconds < 1e12 ? (unsigned long)seconds : 0;
	if (s < 120)
		snprintf(text, TABLE_UNIT_TEXT, "%lu s", s);
	else if (s < 7200)
		snprintf(text, TABLE_UNIT_TEXT, "%lu min", s / 60);
	else if (s < 172800)
		snprintf(text, TABLE_UNIT_TEXT, "%lu h %lu min", s / 3600, s / 60 % 60);
	else
		snprintf(text, TABLE_UNIT_TEXT, "%lu days", s / 86400);
	return text;
}
