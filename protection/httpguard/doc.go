// Package httpguard puts the policies of package protection around HTTP: [Middleware] in front of a handler, [Transport]
// around a client's requests, and [Webhook] as a sink of alarms.
package httpguard
