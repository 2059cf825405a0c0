package dbguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"

	"github.com/snowshed-go/snowshed/loader"
)

// Queryer is what loaders read from: a *sql.DB (best that of a [Guard]), a *sql.Conn, or anything that looks like one.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Scanner is the row that a scan function reads.
type Scanner interface {
	Scan(dest ...any) error
}

// Scalar is a key that is one argument of a query: strings, integers and types based on them.
type Scalar interface {
	~string |
		~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// QueryRow returns a loader that runs a query with the key as its one argument and scans the first row. No row is
// [loader.ErrNotFound]; further rows are not read. Errors of the query, of scan and of closing the result are returned,
// never with a value. The loader is safe for concurrent use if db and scan are.
//
// Scan must copy what it keeps: do not scan into sql.RawBytes.
func QueryRow[K Scalar, V any](db Queryer, query string, scan func(Scanner) (V, error)) loader.Func[K, V] {
	bind := binder[K]()
	return QueryRowBy(db, query, func(key K) []any { return []any{bind(key)} }, scan)
}

// QueryRowBy is [QueryRow] for keys of several columns: args gives the arguments of the query.
func QueryRowBy[K comparable, V any](db Queryer, query string, args func(K) []any, scan func(Scanner) (V, error)) loader.Func[K, V] {
	if db == nil || args == nil || scan == nil {
		return func(context.Context, K) (V, error) {
			var zero V
			return zero, errors.New("dbguard: a loader needs a database, and functions for arguments and scan that are not nil")
		}
	}
	return func(ctx context.Context, key K) (V, error) {
		v, err := queryRow(ctx, db, query, args(key), scan)
		if err != nil {
			var zero V
			return zero, err
		}
		return v, nil
	}
}

func queryRow[V any](ctx context.Context, db Queryer, query string, args []any, scan func(Scanner) (V, error)) (v V, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return v, err
	}
	defer func() { // also when scan panics: an open result holds its connection
		if closing := rows.Close(); err == nil {
			err = closing
		}
	}()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return v, err
		}
		return v, loader.ErrNotFound
	}
	v, err = scan(rows)
	if err != nil {
		return v, err
	}
	return v, rows.Err()
}

// binder returns how a key becomes an argument. Types that are based on a basic type are converted to it, so that every
// driver takes them; a key that knows its own form (driver.Valuer) keeps it.
func binder[K Scalar]() func(K) any {
	var zero K
	if _, ok := any(zero).(driver.Valuer); ok {
		return func(key K) any { return key }
	}
	switch t := reflect.TypeFor[K](); t.Kind() {
	case reflect.String:
		return func(key K) any { return reflect.ValueOf(key).String() }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(key K) any { return reflect.ValueOf(key).Uint() }
	default: // the integers with a sign
		return func(key K) any { return reflect.ValueOf(key).Int() }
	}
}
