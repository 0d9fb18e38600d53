package hostlist

import (
	"strconv"
	"strings"

	"remshell/text"
)

// keys lists the attributes with the names they go by, the first being ours.
var keys = [][]string{
	{"slots", "count", "cpu", "cpus", "np", "nprocs"},
	{"max_slots", "cpu_max"},
	{"user", "username", "login"},
	{"port"},
	{"binding", "bind"},
	{"addr", "address"},
	{"iface"},
	{"type"},
	{"alias"},
	{"env"},
	{"path"},
}

// canonical returns our name of a key. Case does not count, and "-" is "_".
func canonical(key string) (string, bool) {
	key = strings.ReplaceAll(strings.ToLower(key), "-", "_")
	for _, names := range keys {
		for _, name := range names {
			if name == key {
				return names[0], true
			}
		}
	}
	return "", false
}

// attribute reads the value after "key=" and gives it to all hosts of the line.
func (p *parser) attribute(c *cursor, from int, key string, hosts []mention) {
	keyEnd := from + len(key)
	c.blanks()
	at := c.pos
	value, err := c.value()
	name, known := canonical(key)
	switch {
	case err != nil:
		p.add(err)
		c.pos = len(c.text)
	case !known:
		p.add(c.fault(from, keyEnd, "unknown key %q%s", key, meant(key)))
	case value == "" || c.pos > at && strings.ContainsAny(c.text[keyEnd:at], " \t") && strings.Contains(value, "="):
		p.add(c.fault(from, keyEnd, "the value of %q is missing", key))
	default:
		a := attr{key: name, value: value, cursor: c, from: at, to: c.pos, judge: p.judge}
		for i := range hosts {
			if err := a.apply(&hosts[i]); err != nil {
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

func (a attr) apply(m *mention) error {
	if m.Exclude {
		return a.fault(a.from, a.to, "an excluded host takes no attributes")
	}
	switch a.key {
	case "slots":
		return a.count(&m.Slots, "slot count", maxSlots)
	case "max_slots":
		return a.count(&m.MaxSlots, "slot limit", maxSlots)
	case "port":
		return a.count(&m.Port, "port", 65535)
	case "user":
		if err := a.login(a.from, a.to, a.value); err != nil {
			return err
		}
		return a.text(&m.User, a.value)
	case "addr":
		address, err := a.address(a.from, a.to, a.value)
		if err != nil {
			return err
		}
		return a.text(&m.Address, address)
	case "alias":
		if _, bad := badName(a.value); bad != "" {
			return a.fault(a.from, a.to, "%q is not a host name", a.value)
		}
		if len(m.names) > 1 {
			return a.fault(a.from, a.to, "one alias cannot name %d hosts", len(m.names))
		}
		return a.text(&m.Alias, a.value)
	case "env":
		return a.env(m)
	}
	value := m.Attrs[a.key]
	if err := a.text(&value, a.value); err != nil {
		return err
	}
	if a.key == "path" && (value[0] != '/' || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' })) {
		return a.fault(a.from, a.to, "%q is not a path from the root, like /opt/remshell/bin/mpiexec", value)
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
	for _, names := range keys {
		for _, name := range names {
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
