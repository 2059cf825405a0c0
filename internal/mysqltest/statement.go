package mysqltest

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// statement is SQL taken apart so that texts that differ in white space, comments, letter case and literals have the
// same key: a driver that puts parameters into the text sends what a script calls "id = ?".
type statement struct {
	sql      string
	key      string    // tokens in lower case, literals as ?, one space between
	operands []operand // what stands at the ?s of key
	params   int       // placeholders in sql
	several  bool      // more than one statement
	limit    time.Duration
}

// operand is a literal or, with param >= 0, a placeholder.
type operand struct {
	param int
	value any
}

// parse takes sql apart. It accepts any text.
func parse(sql string) *statement {
	p := parser{statement: statement{sql: sql}, lexer: lexer{sql: sql}}
	p.words.Grow(len(sql) + 16)
	ended := false
	for t := p.lexer.next(); t.kind != tokenEnd; t = p.lexer.next() {
		text := sql[t.start:t.end]
		switch {
		case t.kind == tokenComment:
			if p.mayHint {
				p.limit = executionLimit(text)
			}
			p.mayHint = false
		case text == ";":
			ended = true
		default:
			p.several = p.several || ended
			p.token(t, text)
		}
	}
	if p.minus {
		p.write("-")
	}
	p.key = p.words.String()
	st := p.statement
	return &st
}

// parser is the state of parse.
type parser struct {
	statement

	lexer   lexer
	words   strings.Builder // of the key
	last    string          // token
	minus   bool            // seen, and may belong to a number
	mayHint bool            // directly behind the first SELECT
}

func (p *parser) token(t token, text string) {
	if p.minus && t.kind != tokenNumber {
		p.write("-")
		p.minus = false
	}
	switch t.kind {
	case tokenWord:
		text = strings.ToLower(text)
		p.word(text, t.end)
	case tokenQuotedName:
		p.write(strings.ToLower(strings.Trim(text, "`")))
	case tokenString:
		p.literal(unquote(text))
	case tokenNumber:
		if p.minus {
			text = "-" + text
			p.minus = false
		}
		p.literal(number(text))
	case tokenPlaceholder:
		p.operands = append(p.operands, operand{param: p.params})
		p.params++
		p.write("?")
	default:
		if p.minus = text == "-" && mayPrecedeSign(p.last); !p.minus {
			p.write(text)
		}
	}
	p.mayHint = p.last == "" && text == "select"
	p.last = text
}

func (p *parser) word(text string, end int) {
	switch {
	case text == "null":
		p.literal(nil)
	case text[0] == '_' && end < len(p.sql) && p.sql[end] == '\'': // introducer: _binary'…'
		t := p.lexer.next()
		p.literal([]byte(unquote(p.sql[t.start:t.end])))
	default:
		p.write(text)
	}
}

func (p *parser) literal(v any) {
	p.operands = append(p.operands, operand{param: -1, value: v})
	p.write("?")
}

func (p *parser) write(word string) {
	if p.words.Len() > 0 {
		p.words.WriteByte(' ')
	}
	p.words.WriteString(word)
}

// mayPrecedeSign says whether a minus behind token is a sign; behind a name it takes two operands.
func mayPrecedeSign(token string) bool {
	switch token {
	case "", "=", "<", ">", "(", ",":
		return true
	}
	return false
}

// args are the values at those operands of st that are placeholders in the pattern p.
func (p *statement) args(st *statement, bound []any) []any {
	if p.params == 0 {
		return nil
	}
	args := make([]any, 0, p.params)
	for i, o := range p.operands {
		if o.param >= 0 {
			args = append(args, st.operands[i].resolve(bound))
		}
	}
	return args
}

// matches says whether st, whose key is the same, has the literals of the pattern p.
func (p *statement) matches(st *statement) bool {
	for i, o := range p.operands {
		if o.param >= 0 {
			continue
		}
		if got := st.operands[i]; got.param >= 0 || !equalLiterals(o.value, got.value) {
			return false
		}
	}
	return true
}

func equalLiterals(a, b any) bool {
	if a, ok := a.([]byte); ok {
		b, ok := b.([]byte)
		return ok && slices.Equal(a, b)
	}
	_, bytes := b.([]byte)
	return !bytes && a == b
}

// resolve is the operand's value, given the bound parameters; nil where one is missing.
func (o operand) resolve(bound []any) any {
	switch {
	case o.param < 0:
		return o.value
	case o.param < len(bound):
		return bound[o.param]
	}
	return nil
}

// collapse is sql without comments, with one space for white space, without the last semicolon.
func collapse(sql string) string {
	var out strings.Builder
	out.Grow(len(sql))
	l := lexer{sql: sql}
	end := 0
	for t := l.next(); t.kind != tokenEnd; t = l.next() {
		if t.kind == tokenComment {
			continue
		}
		if out.Len() > 0 && t.start > end {
			out.WriteByte(' ')
		}
		out.WriteString(sql[t.start:t.end])
		end = t.end
	}
	return strings.TrimRight(out.String(), "; ")
}

// executionLimit is the MAX_EXECUTION_TIME of an optimizer hint, 0 if it has none.
func executionLimit(comment string) time.Duration {
	const name = "MAX_EXECUTION_TIME("
	if !strings.HasPrefix(comment, "/*+") {
		return 0
	}
	i := strings.Index(strings.ToUpper(comment), name)
	if i < 0 {
		return 0
	}
	ms, _, _ := strings.Cut(comment[i+len(name):], ")")
	n, err := strconv.ParseUint(strings.TrimSpace(ms), 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// number is the value of a numeric literal; what Go cannot read, such as 0x41, stays text.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	return text
}

// unquote is the value of a string literal.
func unquote(text string) string {
	quote := text[0]
	text = text[1:]
	if n := len(text); n > 0 && text[n-1] == quote {
		text = text[:n-1]
	}
	if !strings.ContainsAny(text, `\'"`) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			i++
			c = unescape(text[i])
		case c == quote && i+1 < len(text) && text[i+1] == quote:
			i++
		}
		out = append(out, c)
	}
	return string(out)
}

func unescape(c byte) byte {
	switch c {
	case '0':
		return 0
	case 'b':
		return '\b'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'Z':
		return 0x1a
	}
	return c
}
