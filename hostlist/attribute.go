package hostlist

import (
	"slices"
	"strconv"
	"strings"

	"remshell/text"
)

// An attrKey is what may stand before "=" behind a host, and what its value does. A new one is a row of keys.
type attrKey struct {
	names []string // the first is ours
	set   func(a attr, m *mention) error
}

var keys = []attrKey{
	{[]string{"slots", "count", "cpu", "cpus", "np", "nprocs"}, func(a attr, m *mention) error { return a.count(&m.Slots, "slot count", maxSlots) }},
	{[]string{"max_slots", "cpu_max"}, func(a attr, m *mention) error { return a.count(&m.MaxSlots, "slot limit", maxSlots) }},
	{[]string{"user", "username", "login"}, attr.user},
	{[]string{"port"}, func(a attr, m *mention) error { return a.count(&m.Port, "port", 65535) }},
	{[]string{"binding", "bind"}, attr.judged},
	{[]string{"addr", "address"}, attr.address},
	{[]string{"iface"}, attr.judged},
	{[]string{"type"}, attr.judged},
	{[]string{"alias"}, attr.alias},
	{[]string{"env"}, attr.env},
	{[]string{"path"}, attr.path},
}

// keyOf is the row of a key. Case does not count, and "-" is "_".
func keyOf(key string) (row attrKey, known bool) {
	key = strings.ReplaceAll(strings.ToLower(key), "-", "_")
	for _, k := range keys {
		if slices.Contains(k.names, key) {
			return k, true
		}
	}
	return attrKey{}, false
}

// attribute reads the value after "key=" and gives it to all hosts of the line.
func (p *parser) attribute(c *cursor, from int, key string, hosts []mention) {
	keyEnd := from + len(key)
	c.blanks()
	at := c.pos
	value, err := c.value()
	row, known := keyOf(key)
	switch {
	case err != nil:
		p.add(err)
		c.pos = len(c.text)
	case !known:
		p.add(c.fault(from, keyEnd, "unknown key %q%s", key, meant(key)))
	case value == "" || c.pos > at && strings.ContainsAny(c.text[keyEnd:at], " \t") && strings.Contains(value, "="):
		p.add(c.fault(from, keyEnd, "the value of %q is missing", key))
	default:
		a := attr{key: row.names[0], value: value, cursor: c, from: at, to: c.pos, judge: p.judge}
		for i := range hosts {
			if err := a.give(&hosts[i], row.set); err != nil {
				p.add(err)
				return
			}
		}
	}
}

// An attr is a known key with its value and where the value stands.
type attr struct {
	key, value string
	*cursor
	from, to int
	judge    Judge
}

// give lets a host have it.
func (a attr) give(m *mention, set func(attr, *mention) error) error {
	if m.Exclude {
		return a.fault(a.from, a.to, "an excluded host takes no attributes")
	}
	return set(a, m)
}

// user keeps a login name.
func (a attr) user(m *mention) error {
	if err := a.login(a.from, a.to, a.value); err != nil {
		return err
	}
	return a.text(&m.User, a.value)
}

// address keeps what is to be connected to.
func (a attr) address(m *mention) error {
	address, err := a.cursor.address(a.from, a.to, a.value)
	if err != nil {
		return err
	}
	return a.text(&m.Address, address)
}

// alias keeps another name of the one host.
func (a attr) alias(m *mention) error {
	if _, bad := badName(a.value); bad != "" {
		return a.fault(a.from, a.to, "%q is not a host name", a.value)
	}
	if len(m.names) > 1 {
		return a.fault(a.from, a.to, "one alias cannot name %d hosts", len(m.names))
	}
	return a.text(&m.Alias, a.value)
}

// path keeps the name of a file.
func (a attr) path(m *mention) error {
	first := m.Attrs[a.key] == ""
	if first && (a.value[0] != '/' || strings.ContainsFunc(a.value, func(r rune) bool { return r < ' ' })) {
		return a.fault(a.from, a.to, "%q is not a path from the root, like /opt/remshell/bin/mpiexec", a.value)
	}
	return a.judged(m)
}

// judged keeps in Attrs what only the caller can judge.
func (a attr) judged(m *mention) error {
	value := m.Attrs[a.key]
	if err := a.text(&value, a.value); err != nil {
		return err
	}
	if a.judge != nil {
		if err := a.judge(a.key, value); err != nil {
			return a.fault(a.from, a.to, "%s: %v", a.key, err)
		}
	}
	if m.Attrs == nil {
		m.Attrs = make(map[string]string)
	}
	m.Attrs[a.key] = value
	return nil
}

// count keeps a number unless another was given before.
func (a attr) count(n *int, what string, most int) error {
	value, err := a.number(a.from, a.to, a.value, what, most)
	switch {
	case err != nil:
		return err
	case *n != 0 && *n != value:
		return a.fault(a.from, a.to, "the %s is given twice: %d and %d", what, *n, value)
	}
	*n = value
	return nil
}

// text keeps a word unless another was given before.
func (a attr) text(s *string, value string) error {
	if *s != "" && *s != value {
		return a.fault(a.from, a.to, "%s is given twice: %q and %q", a.key, *s, value)
	}
	*s = value
	return nil
}

// env keeps a variable, written NAME:VALUE.
func (a attr) env(m *mention) error {
	name, value, ok := strings.Cut(a.value, ":")
	if !ok || name == "" || strings.ContainsAny(name, "= \t") {
		return a.fault(a.from, a.to, "%q is not NAME:VALUE", a.value)
	}
	m.Env = append(m.Env, name+"="+value)
	return nil
}

// number reads a count from 1 to most.
func (c *cursor) number(from, to int, word, what string, most int) (int, error) {
	switch {
	case word == "":
		return 0, c.fault(from, to, "the %s is missing", what)
	case !digits(word):
		return 0, c.fault(from, to, "%s %q is not a number", what, word)
	}
	n, err := strconv.Atoi(word)
	switch {
	case err != nil || n > most:
		return 0, c.fault(from, to, "%s %s is too large; at most %d", what, word, most)
	case n == 0:
		return 0, c.fault(from, to, "%s 0 is too small; at least 1", what)
	}
	return n, nil
}

// meant names the known key that a wrong one resembles most.
func meant(key string) string {
	key = strings.ReplaceAll(strings.ToLower(key), "-", "_")
	best, nearest := 3, ""
	for _, k := range keys {
		for _, name := range k.names {
			if d := text.Distance(key, name); d < best && d < len(key) {
				best, nearest = d, name
			}
		}
	}
	if nearest == "" {
		return ""
	}
	return ` (did you mean "` + nearest + `"?)`
}
