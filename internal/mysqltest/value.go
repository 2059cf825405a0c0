package mysqltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
)

// plain reduces v to nil, int64, uint64, float64, string, []byte or time.Time.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case nil, int64, uint64, float64, string, []byte, time.Time:
		return v, nil
	case int:
		return int64(v), nil
	}
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return r.Int(), nil
	case r.CanUint():
		return r.Uint(), nil
	case r.CanFloat():
		return r.Float(), nil
	case r.Kind() == reflect.String:
		return r.String(), nil
	case r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint8:
		return r.Bytes(), nil
	case r.Kind() == reflect.Bool:
		if r.Bool() {
			return int64(1), nil
		}
		return int64(0), nil
	}
	return nil, fmt.Errorf("mysqltest: a result cannot hold a %T", v)
}

// typeOf is the column type that suits v; Auto for NULL and for what cannot be sent.
func typeOf(v any) Type {
	v, err := plain(v)
	if err != nil {
		return Auto
	}
	switch v.(type) {
	case int64:
		return Int
	case uint64:
		return Uint
	case float64:
		return Float
	case string:
		return Text
	case []byte:
		return Blob
	case time.Time:
		return DateTime
	}
	return Auto
}

// appendText appends v, which is plain and not nil, as the text protocol spells it.
func appendText(b []byte, v any) []byte {
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(b, v, 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case float64:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	case string:
		return append(b, v...)
	case []byte:
		return append(b, v...)
	case time.Time:
		return v.UTC().AppendFormat(b, "2006-01-02 15:04:05.999999")
	}
	return b
}

// appendBinary appends v, which is plain and not nil, as the binary protocol spells a value of type t.
func appendBinary(b []byte, v any, t Type) ([]byte, error) {
	le := binary.LittleEndian
	switch t {
	case Int:
		switch v := v.(type) {
		case int64:
			return le.AppendUint64(b, uint64(v)), nil //nolint:gosec // two's complement is the wire format
		case uint64:
			if v <= math.MaxInt64 {
				return le.AppendUint64(b, v), nil
			}
		}
	case Uint:
		switch v := v.(type) {
		case uint64:
			return le.AppendUint64(b, v), nil
		case int64:
			if v >= 0 {
				return le.AppendUint64(b, uint64(v)), nil
			}
		}
	case Float:
		switch v := v.(type) {
		case float64:
			return le.AppendUint64(b, math.Float64bits(v)), nil
		case int64:
			return le.AppendUint64(b, math.Float64bits(float64(v))), nil
		case uint64:
			return le.AppendUint64(b, math.Float64bits(float64(v))), nil
		}
	case DateTime:
		if v, ok := v.(time.Time); ok {
			return appendDateTime(b, v.UTC()), nil
		}
	default:
		return appendLenString(b, appendText(nil, v)), nil
	}
	return b, fmt.Errorf("mysqltest: %v of type %T does not fit the type of its column", v, v)
}

func appendDateTime(b []byte, t time.Time) []byte {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = binary.LittleEndian.AppendUint16(append(b, 11), uint16(year))             //nolint:gosec // MySQL's end at 9999
	b = append(b, byte(month), byte(day), byte(hour), byte(minute), byte(second)) //nolint:gosec // all below 61
	return binary.LittleEndian.AppendUint32(b, uint32(t.Nanosecond()/1000))       //nolint:gosec // below a million
}
