package mysqltest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
)

// Table holds rows by primary key for statements of the form
//
//	SELECT columns FROM name WHERE key = ?
//	SELECT columns FROM name WHERE key IN (?, …)
//
// with * or column names, literals or placeholders, and LIMIT, FOR UPDATE or FOR SHARE at the end, which change nothing.
// Other statements need a handler, which may read and change the table. Safe for concurrent use.
type Table struct {
	name    string // in lower case
	columns []string

	mu   sync.RWMutex
	rows map[string]tableRow
	next int
}

type tableRow struct {
	order  int // of insertion: rows of one result come in it
	values []any
}

// Table returns a new table, empty, that answers from now on. key is its primary key and first column.
func (s *Server) Table(name, key string, columns ...string) *Table {
	t := &Table{
		name:    strings.ToLower(name),
		columns: append([]string{key}, columns...),
		rows:    make(map[string]tableRow),
	}
	match := func(st *statement) bool {
		_, rest, ok := selectFrom(st.key, t.name)
		return ok && t.byKey(rest)
	}
	s.mux.handleStatement("table "+name, match, t.answer)
	return t
}

// Set puts a row in, or replaces the one with the same key, which is the first value. Values that are missing are NULL,
// surplus ones are dropped.
func (t *Table) Set(values ...any) {
	row := make([]any, len(t.columns))
	copy(row, values)
	id := keyText(row[0])
	t.mu.Lock()
	defer t.mu.Unlock()
	order := t.next
	if old, ok := t.rows[id]; ok {
		order = old.order
	} else {
		t.next++
	}
	t.rows[id] = tableRow{order, row}
}

// Get returns a copy of a row and whether it exists. Keys of different types that print alike are the same.
func (t *Table) Get(key any) (values []any, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	row, ok := t.rows[keyText(key)]
	return slices.Clone(row.values), ok
}

// Delete takes a row out and says whether it was there.
func (t *Table) Delete(key any) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := keyText(key)
	_, ok := t.rows[id]
	delete(t.rows, id)
	return ok
}

// answer reads the rows of the keys in a statement.
func (t *Table) answer(_ context.Context, q *Query) (*Result, error) {
	list, rest, _ := selectFrom(q.key, t.name)
	if limit := strings.Contains(rest, " limit ?"); limit && len(q.operands) > 0 {
		q.operands = q.operands[:len(q.operands)-1]
	}
	return project(list, t.columns, t.find(q.operands))
}

// find returns the rows with the given keys, each once. Rows are never changed in place, so they need no copies.
func (t *Table) find(keys []any) [][]any {
	t.mu.RLock()
	defer t.mu.RUnlock()
	found := make([]tableRow, 0, len(keys))
	for _, key := range keys {
		if row, ok := t.rows[keyText(key)]; ok {
			found = append(found, row)
		}
	}
	slices.SortFunc(found, func(a, b tableRow) int { return cmp.Compare(a.order, b.order) })
	found = slices.CompactFunc(found, func(a, b tableRow) bool { return a.order == b.order })
	rows := make([][]any, len(found))
	for i, row := range found {
		rows[i] = row.values
	}
	return rows
}

// byKey says whether rest, which follows the table's name, chooses by primary key.
func (t *Table) byKey(rest string) bool {
	rest, ok := strings.CutPrefix(rest, "where "+strings.ToLower(t.columns[0])+" ")
	if !ok {
		return false
	}
	if after, ok := strings.CutPrefix(rest, "= ?"); ok {
		rest = after
	} else {
		list, after, ok := strings.Cut(rest, " )")
		in, isIn := strings.CutPrefix(list, "in ( ")
		if !ok || !isIn || strings.Trim(in, "?, ") != "" {
			return false
		}
		rest = after
	}
	switch strings.TrimPrefix(rest, " limit ?") {
	case "", " for update", " for share":
		return true
	}
	return false
}

// keyText makes keys of all types comparable.
func keyText(key any) string {
	v, err := plain(key)
	if err != nil || v == nil {
		return ""
	}
	return string(appendText(nil, v))
}

// selectFrom cuts "select LIST from TABLE REST"; ok is false for another table or statement.
func selectFrom(key, table string) (list, rest string, ok bool) {
	key, ok = strings.CutPrefix(key, "select ")
	if !ok {
		return "", "", false
	}
	list, rest, _ = strings.Cut(key, " from ")
	rest, ok = strings.CutPrefix(rest, table)
	if !ok || rest != "" && rest[0] != ' ' {
		return "", "", false
	}
	return list, strings.TrimPrefix(rest, " "), true
}

// project reduces rows to the columns of a select list.
func project(list string, columns []string, rows [][]any) (*Result, error) {
	if list == "*" {
		return &Result{Columns: Columns(columns...), Rows: rows}, nil
	}
	var picked []int
	for name := range strings.SplitSeq(list, " , ") {
		if i := strings.LastIndex(name, " . "); i >= 0 {
			name = name[i+len(" . "):]
		}
		i := slices.IndexFunc(columns, func(c string) bool { return strings.EqualFold(c, name) })
		if i < 0 {
			return nil, errorf(1054, "Unknown column '%s' in 'field list'", name)
		}
		picked = append(picked, i)
	}
	res := &Result{Columns: make([]Column, len(picked)), Rows: make([][]any, len(rows))}
	for i, from := range picked {
		res.Columns[i].Name = columns[from]
	}
	for i, row := range rows {
		res.Rows[i] = make([]any, len(picked))
		for j, from := range picked {
			res.Rows[i][j] = row[from]
		}
	}
	return res, nil
}
