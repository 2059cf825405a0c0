// Package mysqltest is a simulator of a MySQL server: it speaks the wire protocol to real drivers, answers from scripts
// instead of tables, and models what an overloaded server does to its clients.
//
// A [Server] listens on loopback and also takes in-memory connections ([Server.Dial]), with which it runs inside a
// testing/synctest bubble: create it there, with [Options].InMemory, because a goroutine that waits for a socket holds
// the bubble's clock.
//
//   - Scripts: [Server.Handle] ties a [Handler] to a statement, [Server.HandleMatch] to a kind of statements,
//     [Server.HandleFallback] to the rest; [Server.Table] answers primary-key reads of rows that a test can change.
//   - Capacity: [Capacity] gives the server workers, a service time and a queue. What takes no
//     worker is listed at [Stats].
//   - Zombies: a client that goes away does not stop its statement. The statement keeps its worker and its session stays
//     in the process list until it ends or a KILL ends it.
//   - Faults: [Server.Inject] makes statements or connections fail, wait, hang or vanish; [Server.Stop] and
//     [Server.Start] are a restart; [Server.Disconnect] closes idle sessions.
//   - What the server saw: [Server.Stats], [Server.Await], [Server.Processes].
//
// The simulator knows no SQL beyond that, checks no passwords and offers no TLS.
package mysqltest
