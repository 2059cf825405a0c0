package mysqltest

import (
	"context"
	"encoding/binary"
)

const (
	headerOK    = 0x00
	headerEOF   = 0xfe
	headerError = 0xff

	statusInTransaction = 0x0001
	statusAutocommit    = 0x0002

	charsetUTF8   = 45 // utf8mb4_general_ci
	charsetBinary = 63
)

// reply writes packets that answer a command.
type reply struct {
	packetWriter
	scratch      []byte // memory for payloads
	status       uint16
	deprecateEOF bool // the client takes an OK where older protocols have an EOF
}

// start begins a payload, which send takes.
func (r *reply) start(first byte) []byte { return append(r.scratch[:0], first) }

// send writes a payload and keeps its memory for the next.
func (r *reply) send(payload []byte) {
	r.write(payload)
	r.scratch = payload
}

func (r *reply) ok(affected, lastInsertID uint64) {
	r.okWithHeader(headerOK, affected, lastInsertID)
}

func (r *reply) okWithHeader(header byte, affected, lastInsertID uint64) {
	b := r.start(header)
	b = appendLenInt(b, affected)
	b = appendLenInt(b, lastInsertID)
	b = binary.LittleEndian.AppendUint16(b, r.status)
	b = append(b, 0, 0) // warnings
	r.send(b)
}

func (r *reply) error(e *Error) {
	b := r.start(headerError)
	b = binary.LittleEndian.AppendUint16(b, e.Number)
	if e.SQLState != "" {
		b = append(append(b, '#'), (e.SQLState + "HY000")[:5]...)
	}
	b = append(b, e.Message...)
	r.send(b)
}

// endOfColumns ends a list of definitions; nothing does where EOFs are deprecated.
func (r *reply) endOfColumns() {
	if !r.deprecateEOF {
		r.eof()
	}
}

func (r *reply) endOfRows() {
	if r.deprecateEOF {
		r.okWithHeader(headerEOF, 0, 0)
	} else {
		r.eof()
	}
}

func (r *reply) eof() {
	r.send(binary.LittleEndian.AppendUint16(append(r.start(headerEOF), 0, 0), r.status))
}

// result writes res; ctx is that of the statement, and when it ends in the middle of the rows an error ends them.
func (r *reply) result(ctx context.Context, res *Result, binaryRows bool) {
	if len(res.Columns) == 0 {
		r.ok(res.Affected, res.LastInsertID)
		return
	}
	types := res.types()
	r.send(appendLenInt(r.scratch[:0], uint64(len(types))))
	for i, c := range res.Columns {
		r.column(c.Name, types[i])
	}
	r.endOfColumns()

	row := r.textRow
	if binaryRows {
		row = r.binaryRow
	}
	for _, values := range res.Rows {
		if !r.row(ctx, row, values, types) {
			return
		}
	}
	if res.Stream != nil {
		for values := range res.Stream {
			if !r.row(ctx, row, values, types) {
				return
			}
		}
	}
	r.endOfRows()
}

// row writes a row with write. It returns false when no more can follow.
func (r *reply) row(ctx context.Context, write func([]any, []Type) error, values []any, types []Type) bool {
	if r.failed() {
		return false
	}
	err := context.Cause(ctx)
	if err == nil {
		err = write(values, types)
	}
	if err != nil {
		r.error(asError(ctx, err))
	}
	return err == nil
}

func (r *reply) column(name string, t Type) {
	code, charset, flags, decimals := byte(253), uint16(charsetBinary), uint16(0), byte(0) // VAR_STRING
	switch t {
	case Blob:
		code, flags = 252, 0x90 // BLOB and BINARY
	case Int:
		code = 8
	case Uint:
		code, flags = 8, 0x20 // UNSIGNED
	case Float:
		code, decimals = 5, 31
	case DateTime:
		code, decimals = 12, 6
	default:
		charset = charsetUTF8
	}
	b := appendLenString(r.scratch[:0], "def")
	b = append(b, 0, 0, 0) // schema, table, table's own name
	b = appendLenString(b, name)
	b = append(b, 0, 0x0c) // column's own name, length of what follows
	b = binary.LittleEndian.AppendUint16(b, charset)
	b = binary.LittleEndian.AppendUint32(b, 1024) // display width
	b = binary.LittleEndian.AppendUint16(append(b, code), flags)
	b = append(b, decimals, 0, 0)
	r.send(b)
}

func (r *reply) textRow(values []any, types []Type) error {
	b := r.scratch[:0]
	var text []byte
	for i := range types {
		v, err := valueAt(values, i)
		if err != nil {
			return err
		}
		switch v := v.(type) {
		case nil:
			b = append(b, 0xfb)
		case string:
			b = appendLenString(b, v)
		case []byte:
			b = appendLenString(b, v)
		default:
			text = appendText(text[:0], v)
			b = appendLenString(b, text)
		}
	}
	r.send(b)
	return nil
}

func (r *reply) binaryRow(values []any, types []Type) error {
	b := r.start(0)
	const bitmap = 1 // where the bitmap of NULLs starts; its first two bits are reserved
	for range (len(types) + 2 + 7) / 8 {
		b = append(b, 0)
	}
	for i, t := range types {
		v, err := valueAt(values, i)
		if err != nil {
			return err
		}
		if v == nil {
			b[bitmap+(i+2)/8] |= 1 << ((i + 2) % 8)
			continue
		}
		if b, err = appendBinary(b, v, t); err != nil {
			return err
		}
	}
	r.send(b)
	return nil
}

func valueAt(values []any, i int) (any, error) {
	if i >= len(values) {
		return nil, nil //nolint:nilnil // NULL
	}
	return plain(values[i])
}
