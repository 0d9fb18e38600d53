package hostlist

import (
	"slices"
	"strconv"
	"strings"

	"remshell/text"
)

// An attrKey describes one attribute that may follow a host as KEY=VALUE: the names of its key, and the function that
// applies its value to the host. To add an attribute, add a row to attrKeys.
type attrKey struct {
	names []string // the first is the canonical name
	apply func(a attr, m *hostExpr) error
}

var attrKeys = []attrKey{
	{[]string{"slots", "count", "cpu", "cpus", "np", "nprocs"}, func(a attr, m *hostExpr) error { return a.setCount(&m.Slots, "slot count", maxSlots) }},
	{[]string{"max_slots", "cpu_max"}, func(a attr, m *hostExpr) error { return a.setCount(&m.MaxSlots, "slot limit", maxSlots) }},
	{[]string{"user", "username", "login"}, attr.setUser},
	{[]string{"port"}, func(a attr, m *hostExpr) error { return a.setCount(&m.Port, "port", 65535) }},
	{[]string{"binding", "bind"}, attr.setChecked},
	{[]string{"addr", "address"}, attr.setAddress},
	{[]string{"iface"}, attr.setChecked},
	{[]string{"type"}, attr.setChecked},
	{[]string{"alias"}, attr.setAlias},
	{[]string{"env"}, attr.setEnv},
	{[]string{"path"}, attr.setPath},
}

// attrKeyOf returns the row of attrKeys for a key. It ignores case and treats "-" like "_". known is false if there is
// no such key.
func attrKeyOf(key string) (row attrKey, known bool) {
	key = strings.ReplaceAll(strings.ToLower(key), "-", "_")
	for _, k := range attrKeys {
		if slices.Contains(k.names, key) {
			return k, true
		}
	}
	return attrKey{}, false
}

// parseAttribute parses the value of an attribute, after its key and the equals sign, and applies it to all hosts of
// the line.
func (p *parser) parseAttribute(c *cursor, start int, key string, hosts []hostExpr) {
	keyEnd := start + len(key)
	c.skipBlanks()
	at := c.pos
	value, err := c.readValue()
	row, known := attrKeyOf(key)
	switch {
	case err != nil:
		p.addError(err)
		c.pos = len(c.text)
	case !known:
		p.addError(c.errorAt(start, keyEnd, "unknown key %q%s", key, suggestKey(key)))
	case value == "" || c.pos > at && strings.ContainsAny(c.text[keyEnd:at], " \t") && strings.Contains(value, "="):
		p.addError(c.errorAt(start, keyEnd, "the value of %q is missing", key))
	default:
		a := attr{key: row.names[0], value: value, cursor: c, from: at, to: c.pos, check: p.checkAttr}
		for i := range hosts {
			if err := a.applyTo(&hosts[i], row.apply); err != nil {
				p.addError(err)
				return
			}
		}
	}
}

// An attr is one attribute of a host: a known key, the value, and the position of the value in the line.
type attr struct {
	key, value string
	*cursor
	from, to int
	check    AttrCheck
}

// applyTo calls set to apply the attribute to a host. It returns an error if the host is an excluded one.
func (a attr) applyTo(m *hostExpr, set func(attr, *hostExpr) error) error {
	if m.Exclude {
		return a.errorAt(a.from, a.to, "an excluded host cannot have attributes")
	}
	return set(a, m)
}

// setUser sets the login name of a host.
func (a attr) setUser(m *hostExpr) error {
	if err := a.checkUser(a.from, a.to, a.value); err != nil {
		return err
	}
	return a.setText(&m.User, a.value)
}

// setAddress sets the address to which mpiexec connects instead of the host's name.
func (a attr) setAddress(m *hostExpr) error {
	address, err := a.cursor.checkAddress(a.from, a.to, a.value)
	if err != nil {
		return err
	}
	return a.setText(&m.Address, address)
}

// setAlias sets an alias of a host. It fails if the host expression names several hosts.
func (a attr) setAlias(m *hostExpr) error {
	if _, bad := badName(a.value); bad != "" {
		return a.errorAt(a.from, a.to, "%q is not a host name", a.value)
	}
	if len(m.names) > 1 {
		return a.errorAt(a.from, a.to, "one alias cannot be used for %d hosts", len(m.names))
	}
	return a.setText(&m.Alias, a.value)
}

// setPath sets the path of mpiexec on a host (path=). The path must be absolute.
func (a attr) setPath(m *hostExpr) error {
	first := m.Attrs[a.key] == ""
	if first && (a.value[0] != '/' || strings.ContainsFunc(a.value, func(r rune) bool { return r < ' ' })) {
		return a.errorAt(a.from, a.to, "%q is not an absolute path such as /opt/remshell/bin/mpiexec", a.value)
	}
	return a.setChecked(m)
}

// setChecked checks the value with the caller's AttrCheck and stores it in Attrs. It returns an error if the value is
// invalid.
func (a attr) setChecked(m *hostExpr) error {
	value := m.Attrs[a.key]
	if err := a.setText(&value, a.value); err != nil {
		return err
	}
	if a.check != nil {
		if err := a.check(a.key, value); err != nil {
			return a.errorAt(a.from, a.to, "%s: %v", a.key, err)
		}
	}
	if m.Attrs == nil {
		m.Attrs = make(map[string]string)
	}
	m.Attrs[a.key] = value
	return nil
}

// setCount parses the value as a number from 1 to limit and stores it in n. It fails if n was already set to a
// different value.
func (a attr) setCount(n *int, noun string, limit int) error {
	value, err := a.readNumber(a.from, a.to, a.value, noun, limit)
	switch {
	case err != nil:
		return err
	case *n != 0 && *n != value:
		return a.errorAt(a.from, a.to, "the %s is given twice, as %d and %d", noun, *n, value)
	}
	*n = value
	return nil
}

// setText stores value in s. It fails if s was already set to a different value.
func (a attr) setText(s *string, value string) error {
	if *s != "" && *s != value {
		return a.errorAt(a.from, a.to, "%s is given twice: %q and %q", a.key, *s, value)
	}
	*s = value
	return nil
}

// setEnv adds an environment variable, written NAME:VALUE, to the host.
func (a attr) setEnv(m *hostExpr) error {
	name, value, ok := strings.Cut(a.value, ":")
	if !ok || name == "" || strings.ContainsAny(name, "= \t") {
		return a.errorAt(a.from, a.to, "%q is not NAME:VALUE", a.value)
	}
	m.Env = append(m.Env, name+"="+value)
	return nil
}

// readNumber parses word, which is at the bytes [start, end) of the line, as a number from 1 to limit. noun
// is the name of the number in error messages.
func (c *cursor) readNumber(start, end int, word, noun string, limit int) (int, error) {
	switch {
	case word == "":
		return 0, c.errorAt(start, end, "the %s is missing", noun)
	case !allDigits(word):
		return 0, c.errorAt(start, end, "%s %q is not a number", noun, word)
	}
	n, err := strconv.Atoi(word)
	switch {
	case err != nil || n > limit:
		return 0, c.errorAt(start, end, "%s %s is too large; the maximum is %d", noun, word, limit)
	case n == 0:
		return 0, c.errorAt(start, end, "%s 0 is too small; the minimum is 1", noun)
	}
	return n, nil
}

// suggestKey returns a hint that names the most similar known key, or "" if none is similar.
func suggestKey(key string) string {
	key = strings.ReplaceAll(strings.ToLower(key), "-", "_")
	best, nearest := 3, ""
	for _, k := range attrKeys {
		for _, name := range k.names {
			if d := text.EditDistance(key, name); d < best && d < len(key) {
				best, nearest = d, name
			}
		}
	}
	if nearest == "" {
		return ""
	}
	return ` (did you mean "` + nearest + `"?)`
}
