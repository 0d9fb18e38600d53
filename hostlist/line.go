package hostlist

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// A cursor reads one line of a host file, or a whole host list, from left to right. A host list has neither
// comments nor attributes.
type cursor struct {
	sourceLine
	isList         bool
	allowsRelative bool     // hosts may be named by their position in another list
	chain          []string // the files that include one another up to this one, which is last
	pos            int
}

func (c *cursor) rest() string { return c.text[c.pos:] }

func (c *cursor) skipBlanks() {
	c.pos = len(c.text) - len(strings.TrimLeft(c.rest(), " \t"))
}

// atEnd reports whether the cursor is at the end of the line or, in a file, at a comment.
func (c *cursor) atEnd() bool {
	return c.pos == len(c.text) || c.text[c.pos] == '#' && !c.isList
}

// readWord reads and returns the text up to the next blank, comma, equals sign or comment. Commas in brackets are
// part of the word.
func (c *cursor) readWord() string {
	from, depth := c.pos, 0
	for ; !c.atEnd(); c.pos++ {
		switch b := c.text[c.pos]; {
		case b == '[':
			depth++
		case b == ']':
			depth--
		case b == ' ' || b == '\t' || b == '=':
			return c.text[from:c.pos]
		case b == ',' && depth <= 0:
			return c.text[from:c.pos]
		}
	}
	return c.text[from:c.pos]
}

// skipByte skips the byte b and any blanks before it. If another byte follows the blanks, it skips nothing and returns
// false.
func (c *cursor) skipByte(b byte) bool {
	ahead := *c
	ahead.skipBlanks()
	if ahead.pos == len(c.text) || ahead.text[ahead.pos] != b {
		return false
	}
	c.pos = ahead.pos + 1
	return true
}

// readValue reads the text up to the next blank or comment. Single or double quotes may enclose any part of the
// value. There is no escape character: a quote can be enclosed in quotes of the other kind.
func (c *cursor) readValue() (string, error) {
	var out strings.Builder
	for !c.atEnd() {
		b := c.text[c.pos]
		switch b {
		case ' ', '\t':
			return out.String(), nil
		case '"', '\'':
			inside, _, closed := strings.Cut(c.text[c.pos+1:], string(b))
			if !closed {
				return "", c.errorAt(c.pos, len(c.text), "the quote is not closed")
			}
			out.WriteString(inside)
			c.pos += len(inside) + 2
		default:
			out.WriteByte(b)
			c.pos++
		}
	}
	return out.String(), nil
}

// A hostExpr is a parsed host expression. It contains the names to which the expression expands, and an Entry with the
// fields that all these hosts share.
type hostExpr struct {
	Entry
	names    []string
	from, to int
}

// addEntries appends an entry for each host of a line.
func (p *parser) addEntries(hosts []hostExpr) {
	for _, m := range hosts {
		for _, name := range m.names {
			m.Host = name
			p.entries = append(p.entries, m.Entry)
		}
	}
}

// readHostExpr reads one word that names hosts, in the form:
//
//	["^"] [ user "@" ] hostexpr [ ":" slots [ ":" user [ ":" address ] ] ]
func (c *cursor) readHostExpr(start, limit int) (hostExpr, error) {
	at := c.errorAt(start, limit, "")
	m := hostExpr{from: start, to: limit, Entry: Entry{
		File: c.file, Line: c.line, Col: at.Col, text: c.text, width: at.Width,
	}}
	if strings.HasPrefix(c.text[start:limit], "^") {
		m.Exclude = true
		start++
	}
	if i := strings.LastIndexByte(c.text[start:limit], '@'); i >= 0 {
		if err := c.readUser(&m, start, start+i); err != nil {
			return m, err
		}
		start += i + 1
	}
	end, err := c.readName(&m, start, limit)
	if err != nil {
		return m, err
	}
	if end < limit {
		if err := c.readSlotsAndUser(&m, end+1, limit); err != nil {
			return m, err
		}
	}
	if m.Exclude && (m.Slots != 0 || m.User != "") {
		return m, c.errorAt(m.from, m.to, "an excluded host cannot have slots or a user")
	}
	return m, nil
}

// readName parses the host name expression at the start of a word. It returns the end of the expression: the end
// of the word (limit), or the position of a colon. If the word is an IPv6 address without brackets, the whole word
// with its colons is the name (rule HOST-2).
func (c *cursor) readName(m *hostExpr, start, limit int) (int, error) {
	word := c.text[start:limit]
	switch {
	case word == "":
		return 0, c.errorAt(start, limit, "the host name is missing")
	case word[0] == '+':
		return c.readRelativeName(m, start, limit)
	}
	if a, ok := parseIPv6(word); ok {
		m.names = []string{a}
		return limit, nil
	}
	if word[0] == '[' {
		if inside, after, ok := strings.Cut(word[1:], "]"); ok && strings.Contains(inside, ":") {
			a, ok := parseIPv6(inside)
			if !ok {
				return 0, c.errorAt(start+1, start+1+len(inside), "%q is not an IPv6 address", inside)
			}
			m.names = []string{a}
			end := limit - len(after)
			if after != "" && after[0] != ':' {
				return 0, c.errorAt(end, limit, `only :SLOTS may follow an address`)
			}
			return end, nil
		}
	}
	end := limit
	if i := firstColon(word); i >= 0 {
		end = start + i
	}
	names, err := c.expand(start, end)
	m.names = names
	return end, err
}

// parseIPv6 parses an IPv6 address and returns it in the notation of RFC 5952. It returns false if word is not a valid
// address. netip accepts any zone, but here a zone must be an interface name that is safe in a shell.
func parseIPv6(word string) (string, bool) {
	a, err := netip.ParseAddr(word)
	if err != nil || !a.Is6() {
		return "", false
	}
	_, bad := badLetter(a.Zone())
	return a.String(), bad == ""
}

// firstColon returns the position of the first colon of word that is outside brackets, or -1.
func firstColon(word string) int {
	depth := 0
	for i := range len(word) {
		switch word[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ':':
			if depth <= 0 {
				return i
			}
		}
	}
	return -1
}

// readSlotsAndUser reads the text after the first colon, SLOTS[:USER[:ADDRESS]]. The address comes last since an
// IPv6 address contains colons.
func (c *cursor) readSlotsAndUser(m *hostExpr, start, end int) error {
	slots, rest, more := strings.Cut(c.text[start:end], ":")
	var err error
	if m.Slots, err = c.readNumber(start, start+len(slots), slots, "slot count", maxSlots); err != nil || !more {
		return err
	}
	start += len(slots) + 1
	user, address, more := strings.Cut(rest, ":")
	if user != "" || !more {
		if m.User != "" && m.User != user {
			return c.errorAt(start, start+len(user), "the user is given twice")
		}
		if err := c.readUser(m, start, start+len(user)); err != nil {
			return err
		}
	}
	if more {
		start += len(user) + 1
		m.Address, err = c.checkAddress(start, end, address)
	}
	return err
}

// readUser checks the login name at the bytes [start, end) and stores it in m.
func (c *cursor) readUser(m *hostExpr, start, end int) error {
	name := c.text[start:end]
	if name == "" {
		return c.errorAt(start, end, "the user name is missing")
	}
	if err := c.checkUser(start, end, name); err != nil {
		return err
	}
	m.User = name
	return nil
}

// checkUser returns an error if a remote shell could misinterpret the user name on a command line.
func (c *cursor) checkUser(start, end int, name string) error {
	if name == "" || name[0] == '-' || strings.ContainsAny(name, ":/'\"\\`$;&|<>()*?!#{}[]~^") ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }) {
		return c.errorAt(start, end, "%q is not a user name", name)
	}
	return nil
}

// checkAddress checks the name or address that mpiexec will connect to, and returns it. An IPv6 address may be
// enclosed in brackets.
func (c *cursor) checkAddress(start, end int, value string) (string, error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
	if a, ok := parseIPv6(bare); ok {
		return a, nil
	}
	if value == "" {
		return "", c.errorAt(start, end, "the address is missing")
	}
	if _, bad := badName(value); bad != "" {
		return "", c.errorAt(start, end, "%q is not an address or name", value)
	}
	return value, nil
}
