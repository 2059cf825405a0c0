// Package dbguard is the last gate in front of MySQL: an ordinary *sql.DB that never lets more through than it was
// told to, and loaders that read from it.
//
// Every use of a connection (a query, a transaction, a *sql.Conn) must be admitted first: by a rate limit, by a bound on
// concurrency with a short queue, and by a circuit breaker that learns from how statements end. What is not admitted gets
// a *protection.RejectedError at once or after MaxWait, and the server never hears of it:
//
//	guard, err := dbguard.Open(dsn, dbguard.Options{Name: "orders-db", MaxConcurrent: 64, QPS: 2000})
//	load := dbguard.QueryRow[int64](guard.DB(), "SELECT id, name FROM users WHERE id = ?", scanUser)
//
// The price: database/sql pools nothing itself, so a statement of db.Prepare is prepared again at each execution.
package dbguard
