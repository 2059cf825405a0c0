package mysqltest

import "strings"

// tokenKind tells the tokens of SQL apart as far as the simulator cares.
type tokenKind uint8

const (
	tokenEnd         tokenKind = iota
	tokenWord                  // keyword, identifier, variable
	tokenQuotedName            // `identifier`
	tokenNumber                // starts with a digit
	tokenString                // '…' or "…"
	tokenPlaceholder           // ?
	tokenComment
	tokenOther // one character of punctuation
)

// token is sql[start:end].
type token struct {
	kind       tokenKind
	start, end int
}

// lexer cuts SQL into tokens. It accepts any text: what is not closed reaches to the end.
type lexer struct {
	sql string
	pos int
}

func (l *lexer) next() token {
	for l.pos < len(l.sql) && isSpace(l.sql[l.pos]) {
		l.pos++
	}
	start := l.pos
	if start == len(l.sql) {
		return token{tokenEnd, start, start}
	}
	rest := l.sql[start:]
	kind, n := tokenOther, 1
	switch c := rest[0]; {
	case c == '?':
		kind = tokenPlaceholder
	case c == '\'' || c == '"':
		kind, n = tokenString, quotedLen(rest, c, true)
	case c == '`':
		kind, n = tokenQuotedName, quotedLen(rest, c, false)
	case c == '#' || isDashComment(rest):
		kind, n = tokenComment, untilAfter(rest, 0, "\n")
	case strings.HasPrefix(rest, "/*"):
		kind, n = tokenComment, untilAfter(rest, 2, "*/")
	case isDigit(c):
		kind, n = tokenNumber, numberLen(rest)
	case isWord(c):
		kind, n = tokenWord, wordLen(rest)
	}
	l.pos += n
	return token{kind, start, l.pos}
}

// quotedLen is the length of the quoted text at the start of s. A doubled quote stands for one; a backslash takes the
// next character along where escapes says so.
func quotedLen(s string, quote byte, escapes bool) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && escapes:
			i++
		case s[i] == quote:
			if i+1 == len(s) || s[i+1] != quote {
				return i + 1
			}
			i++
		}
	}
	return len(s)
}

// untilAfter is the length of s up to and with the first end at or after from.
func untilAfter(s string, from int, end string) int {
	if i := strings.Index(s[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(s)
}

// isDashComment says whether a comment starts with "--": MySQL wants white space or the end after it, because 5--3 is 8.
func isDashComment(s string) bool {
	return strings.HasPrefix(s, "--") && (len(s) == 2 || isSpace(s[2]))
}

func numberLen(s string) int {
	i := 1
	for i < len(s) {
		exponentSign := (s[i] == '-' || s[i] == '+') && (s[i-1] == 'e' || s[i-1] == 'E') && i+1 < len(s) && isDigit(s[i+1])
		if !isWord(s[i]) && s[i] != '.' && !exponentSign {
			break
		}
		i++
	}
	return i
}

func wordLen(s string) int {
	i := 1
	for i < len(s) && isWord(s[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '_' || c == '$' || c == '@' || c >= 0x80
}
