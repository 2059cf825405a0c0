package mysqltest

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Handler answers a statement. It runs on the session's goroutine and may block, but only as long as ctx lives: ctx ends
// when the statement is killed or the server closes, not when the client goes away. A nil Result is an OK with nothing
// affected. An error that is no [*Error] becomes error 1105. It must not call Stop or Close of its server.
//
// Of statements that read (SELECT and the like) the handler is called before the service time is spent, so that a slow
// read returns what was there when it began; of all others after it, so that a killed write has changed nothing.
type Handler func(ctx context.Context, q *Query) (*Result, error)

// Query is a statement as its [Handler] sees it, owned by the Handler.
type Query struct {
	SQL  string // as sent, with comments and hints
	Args []any  // int64, uint64, float64, string, []byte, time.Time or nil
	// ConnID is the id of the session, as in KILL.
	ConnID uint32
	// InTransaction says that the session has an open transaction.
	InTransaction bool

	key      string // of the statement, and what stands at its ?s
	operands []any
}

// Matcher picks statements by their text without comments and with single spaces. The zero value stands for no choice.
type Matcher struct {
	name  string
	match func(text string) bool
}

// Prefix matches texts that start with prefix, in any letter case.
func Prefix(prefix string) Matcher {
	prefix = collapse(prefix)
	return Matcher{name: prefix, match: func(text string) bool {
		return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
	}}
}

// Regexp matches texts in which re is found.
func Regexp(re *regexp.Regexp) Matcher {
	return Matcher{name: re.String(), match: re.MatchString}
}

// Func matches texts for which match says true; name is for [Stats].ByStatement.
func Func(name string, match func(text string) bool) Matcher {
	return Matcher{name: name, match: match}
}

// Handle lets h answer a statement, replacing the handler it had. White space, comments and letter case make no
// difference. A ? in sql also stands for a literal, so that drivers may put parameters into the text: Query.Args holds the
// values at the ?s of sql in either case.
func (s *Server) Handle(sql string, h Handler) {
	s.mux.handle(collapse(sql), parse(sql), h)
}

// HandleMatch lets h answer the statements that m picks and no [Server.Handle] knows; the oldest match counts. Query.Args
// holds bound parameters only.
func (s *Server) HandleMatch(m Matcher, h Handler) {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	r := &route{name: m.name, handler: h}
	s.mux.matched = append(s.mux.matched, matchedRoute{r, func(_ *statement, text func() string) bool {
		return m.match != nil && m.match(text())
	}})
}

// HandleFallback lets h answer what nothing else knows. Without it such a statement gets error 1064.
func (s *Server) HandleFallback(h Handler) {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	s.mux.fallback = h
}

// route is a handler and what it is called in statistics. The pattern is nil unless one text chose it.
type route struct {
	name    string
	pattern *statement
	handler Handler
	free    bool // needs no worker
}

type matchedRoute struct {
	*route
	match func(st *statement, text func() string) bool
}

// mux finds the handler of a statement.
type mux struct {
	mu       sync.RWMutex
	exact    map[string][]*route // by statement.key, those with most literals first
	matched  []matchedRoute
	own      []matchedRoute // what the server can say of itself
	fallback Handler
}

func (m *mux) handle(name string, pattern *statement, h Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	added := &route{name: name, pattern: pattern, handler: h}
	routes := slices.DeleteFunc(m.exact[pattern.key], func(r *route) bool {
		return r.pattern.params == pattern.params && r.pattern.matches(pattern)
	})
	routes = append(routes, added)
	slices.SortStableFunc(routes, func(a, b *route) int { return a.pattern.params - b.pattern.params })
	m.exact[pattern.key] = routes
}

// handleStatement adds a route for statements that match picks.
func (m *mux) handleStatement(name string, match func(*statement) bool, h Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &route{name: name, handler: h}
	m.matched = append(m.matched, matchedRoute{r, func(st *statement, _ func() string) bool { return match(st) }})
}

// handleOwn adds a route that any route of a user comes before, and that needs no worker.
func (m *mux) handleOwn(name string, match func(*statement) bool, h Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &route{name: name, handler: h, free: true}
	m.own = append(m.own, matchedRoute{r, func(st *statement, _ func() string) bool { return match(st) }})
}

func (m *mux) find(st *statement, text func() string) *route {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, r := range m.exact[st.key] {
		if r.pattern.matches(st) {
			return r
		}
	}
	for _, routes := range [][]matchedRoute{m.matched, m.own} {
		for _, r := range routes {
			if r.match(st, text) {
				return r.route
			}
		}
	}
	if m.fallback != nil {
		return &route{name: "(fallback)", handler: m.fallback}
	}
	return &route{name: "(no handler)", handler: func(context.Context, *Query) (*Result, error) {
		return nil, errorf(1064, "mysqltest: no handler for this statement")
	}}
}

// query makes what the handler of r sees.
func (r *route) query(st *statement, bound []any) *Query {
	q := &Query{SQL: st.sql, Args: bound, key: st.key, operands: make([]any, len(st.operands))}
	for i, o := range st.operands {
		q.operands[i] = o.resolve(bound)
	}
	if r.pattern != nil {
		q.Args = r.pattern.args(st, bound)
	}
	return q
}
