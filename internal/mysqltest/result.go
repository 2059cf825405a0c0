package mysqltest

import "iter"

// Result is the answer to a statement: rows if it has Columns, else an OK. The server only reads it, so a [Handler] may
// return the same one again and again.
type Result struct {
	Columns []Column
	// Rows hold one value per column: nil, bool, integers, floats, string, []byte, time.Time (sent as UTC), or types
	// based on them. Missing values are NULL.
	Rows [][]any
	// Stream gives rows after Rows, for results that are too large to hold. It ends early when the statement is killed.
	Stream iter.Seq[[]any]

	Affected     uint64
	LastInsertID uint64
}

// Column is a column of a [Result].
type Column struct {
	Name string
	Type Type
}

// Type is the type of a [Column].
type Type uint8

// Types of a [Column].
const (
	Auto     Type = iota // of the first value in Rows that is not NULL; Text without one
	Text                 // VARCHAR
	Blob                 // BLOB
	Int                  // BIGINT
	Uint                 // BIGINT UNSIGNED
	Float                // DOUBLE
	DateTime             // DATETIME(6)
)

// Columns returns columns of type Auto.
func Columns(names ...string) []Column {
	columns := make([]Column, len(names))
	for i, name := range names {
		columns[i].Name = name
	}
	return columns
}

// types settles what Auto stands for.
func (r *Result) types() []Type {
	types := make([]Type, len(r.Columns))
	for i, c := range r.Columns {
		types[i] = c.Type
		for _, row := range r.Rows {
			if types[i] != Auto {
				break
			}
			if i < len(row) {
				types[i] = typeOf(row[i])
			}
		}
		if types[i] == Auto {
			types[i] = Text
		}
	}
	return types
}
