package hostlist

import "strings"

// A dialect is a form that lines of host files have. A new one is a row of dialects.
type dialect struct {
	by   string                       // whose files have it
	form string                       // cli.md 4.1
	is   func(line cursor) bool       // tells it by what stands there; nil: what no other one is
	read func(p *parser, line cursor) // adds its entries, or its faults
}

// dialects are all of them, in the order in which a line is held against them: the first that it is in
// reads it. They may change from line to line, as files are put together from others. "!" begins no host's name.
// "node1 4" could be two hosts, of which one is called 4; but nobody calls a host so, and Grid Engine
// writes such lines.
func dialects() []dialect {
	return []dialect{
		{by: "ours", form: "!include FILE", is: isDirective, read: (*parser).directive},
		{by: "Grid Engine", form: "HOST {KEY=VALUE} SLOTS {WORD}", is: isGridEngine, read: (*parser).gridEngine},
		{by: "MPICH, Open MPI, Intel MPI, ParaStation, PBS, Slurm, clush", form: "HOSTS {[,] HOSTS} {KEY=VALUE}", read: (*parser).hosts},
	}
}

// line reads one line of a file in its dialect.
func (p *parser) line(c cursor) {
	c.blanks()
	for _, d := range p.dialects {
		if d.is == nil || d.is(c) {
			d.read(p, c)
			return
		}
	}
}

// hosts reads a line with one host or more, and what holds for all of them; or a whole list. After an
// error in one word it goes on with the next, so that one run shows them all.
func (p *parser) hosts(c cursor) {
	if p.names > p.most {
		return
	}
	var hosts []mention
	words, attrs, comma := 0, false, false
	for c.blanks(); !c.end(); c.blanks() {
		from := c.pos
		word := c.word()
		switch {
		case c.take('='):
			attrs = true
			if c.list || words == 0 {
				p.misplaced(&c, from)
				return
			}
			p.attribute(&c, from, word, hosts)
			continue
		case word == "" && c.take(','):
			p.add(c.fault(from, from+1, "a host name is missing before the comma"))
			continue
		case attrs:
			p.add(c.fault(from, c.pos, "%q comes after attributes; hosts come first", word))
			return
		case words > 0 && c.list && !comma:
			p.add(c.fault(from, c.pos, "hosts are separated by commas here"))
			return
		}
		words++
		var few bool
		if hosts, few = p.mention(&c, from, hosts); !few {
			return
		}
		if comma = c.take(','); comma {
			if c.blanks(); c.end() {
				p.add(c.fault(c.pos-1, c.pos, "a host name is missing after the comma"))
			}
		}
	}
	p.keep(hosts)
}

// mention adds what the word from there to the cursor says to the hosts of a line; few: there are not too
// many.
func (p *parser) mention(c *cursor, from int, hosts []mention) (_ []mention, few bool) {
	m, err := c.mention(from, c.pos)
	if err != nil {
		p.add(err)
		return hosts, true
	}
	if p.names += len(m.names); p.names > p.most {
		p.add(m.fault("more than %d hosts in all", p.most))
		return hosts, false
	}
	return append(hosts, m), true
}

// misplaced reports an attribute where none may be.
func (p *parser) misplaced(c *cursor, from int) {
	if c.list {
		p.add(c.fault(from, c.pos, "attributes belong in a host file; here only HOST:SLOTS:USER:ADDRESS"))
		return
	}
	p.add(c.fault(from, c.pos-1, "a host name must come before attributes"))
}

// isGridEngine tells a line of a PE_HOSTFILE, "HOST SLOTS QUEUE PROCESSORS": its second word is a number.
// Attributes may stand before it.
func isGridEngine(c cursor) bool {
	if c.word() == "" || c.take('=') || c.take(',') {
		return false
	}
	for c.blanks(); !c.end(); c.blanks() {
		word := c.word()
		if !c.take('=') {
			return digits(word)
		}
		c.blanks()
		if _, err := c.value(); err != nil {
			return false
		}
	}
	return false
}

// gridEngine reads such a line: the words after the slot count mean nothing to us. Attributes
// that we know still count, so that nobody's max_slots gets lost.
func (p *parser) gridEngine(c cursor) {
	if p.names > p.most {
		return
	}
	from := c.pos
	c.word()
	hosts, few := p.mention(&c, from, nil)
	if !few {
		return
	}
	word := func() string {
		c.blanks()
		from = c.pos
		return c.word()
	}
	count := word()
	for ; c.take('='); count = word() {
		p.attribute(&c, from, count, hosts)
	}
	p.slots(&c, from, count, hosts)
	for c.blanks(); !c.end(); c.blanks() {
		from := c.pos
		key, _, assigned := strings.Cut(c.rest(), "=")
		if _, known := keyOf(key); known && assigned {
			c.pos += len(key) + 1
			p.attribute(&c, from, key, hosts)
			continue
		}
		for !c.end() && c.text[c.pos] != ' ' && c.text[c.pos] != '\t' {
			c.pos++
		}
	}
	p.keep(hosts)
}

// slots gives a slot count to the hosts of a line.
func (p *parser) slots(c *cursor, from int, count string, hosts []mention) {
	slots, err := c.number(from, c.pos, count, "slot count", maxSlots)
	if err != nil {
		p.add(err)
	}
	for i := range hosts {
		switch m := hosts[i]; {
		case m.Slots != 0:
			p.add(c.fault(from, c.pos, "the slot count is given twice"))
			return
		case m.Exclude:
			p.add(c.fault(from, c.pos, "an excluded host takes no slots"))
			return
		}
		hosts[i].Slots = slots
	}
}

// isDirective tells a line that is for us.
func isDirective(c cursor) bool { return strings.HasPrefix(c.rest(), "!") }

// directive reads "!include FILE", the only one there is.
func (p *parser) directive(c cursor) {
	from := c.pos
	c.pos++
	word := c.word()
	if word != "include" {
		p.add(c.fault(from, c.pos, `unknown directive %q; there is only "!include FILE"`, "!"+word))
		return
	}
	c.blanks()
	from = c.pos
	name, err := c.value()
	switch {
	case err != nil:
		p.add(err)
		return
	case name == "":
		p.add(c.fault(from, from, "the name of the file to include is missing"))
		return
	}
	to := c.pos
	if c.blanks(); !c.end() {
		p.add(c.fault(c.pos, len(c.text), "one file name may follow !include; quote it if it has blanks"))
		return
	}
	c.pos = from
	p.include(c, to, name)
}
