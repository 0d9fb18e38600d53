package hostlist

import "strings"

// A lineFormat is one format of lines in host files. To add a format, add a row to lineFormats.
type lineFormat struct {
	usedBy  string                       // launchers whose files use it
	syntax  string                       // cli.md 4.1
	matches func(line cursor) bool       // reports whether a line has this format; nil matches every line
	read    func(p *parser, line cursor) // adds the line's entries, or its errors
}

// lineFormats returns all formats in the order in which they are tried. The first format that matches parses the line.
// Each line of a file may have a different format, since users combine files. No host name begins with "!", so a line
// that does is a directive. No host is called "4", so a line such as "node1 4" comes from Grid Engine.
func lineFormats() []lineFormat {
	return []lineFormat{
		{usedBy: "ours", syntax: "!include FILE", matches: isDirective, read: (*parser).parseDirective},
		{usedBy: "Grid Engine", syntax: "HOST {KEY=VALUE} SLOTS {WORD}", matches: isGridEngine, read: (*parser).parseGridEngine},
		{usedBy: "MPICH, Open MPI, Intel MPI, ParaStation, PBS, Slurm, clush", syntax: "HOSTS {[,] HOSTS} {KEY=VALUE}", read: (*parser).parseHosts},
	}
}

// parseLine parses one line of a host file in the line's format.
func (p *parser) parseLine(c cursor) {
	c.skipBlanks()
	for _, format := range p.formats {
		if format.matches == nil || format.matches(c) {
			format.read(p, c)
			return
		}
	}
}

// parseHosts parses a whole host list, or a line with hosts and attributes that apply to all hosts of the line.
// After an error in one word, it continues with the next word, so that the user sees all errors at once.
func (p *parser) parseHosts(c cursor) {
	if p.names > p.maxNames {
		return
	}
	var hosts []hostExpr
	words, attrs, comma := 0, false, false
	for c.skipBlanks(); !c.atEnd(); c.skipBlanks() {
		from := c.pos
		word := c.readWord()
		switch {
		case c.skipByte('='):
			attrs = true
			if c.isList || words == 0 {
				p.refuseAttribute(&c, from)
				return
			}
			p.parseAttribute(&c, from, word, hosts)
			continue
		case word == "" && c.skipByte(','):
			p.addError(c.errorAt(from, from+1, "a host name is missing before the comma"))
			continue
		case attrs:
			p.addError(c.errorAt(from, c.pos, "%q comes after attributes; write hosts before attributes", word))
			return
		case words > 0 && c.isList && !comma:
			p.addError(c.errorAt(from, c.pos, "hosts must be separated by commas"))
			return
		}
		words++
		var few bool
		if hosts, few = p.addHosts(&c, from, hosts); !few {
			return
		}
		if comma = c.skipByte(','); comma {
			if c.skipBlanks(); c.atEnd() {
				p.addError(c.errorAt(c.pos-1, c.pos, "a host name is missing after the comma"))
			}
		}
	}
	p.addEntries(hosts)
}

// addHosts parses the word from start to the cursor and appends its hosts to hosts. ok is false if there are too
// many hosts.
func (p *parser) addHosts(c *cursor, start int, hosts []hostExpr) (_ []hostExpr, ok bool) {
	m, err := c.readHostExpr(start, c.pos)
	if err != nil {
		p.addError(err)
		return hosts, true
	}
	if p.names += len(m.names); p.names > p.maxNames {
		p.addError(m.errorAt("the list has more than %d hosts", p.maxNames))
		return hosts, false
	}
	return append(hosts, m), true
}

// refuseAttribute records an error for an attribute in a host list, where none is allowed, or before the first host of
// a line.
func (p *parser) refuseAttribute(c *cursor, start int) {
	if c.isList {
		p.addError(c.errorAt(start, c.pos, "attributes are allowed only in a host file; here write HOST:SLOTS:USER:ADDRESS"))
		return
	}
	p.addError(c.errorAt(start, c.pos-1, "a host name must come before attributes"))
}

// isGridEngine reports whether a line has the form of Grid Engine's PE_HOSTFILE, "HOST SLOTS QUEUE PROCESSORS". The
// line has this form if its second word is a number. Attributes may come before the number.
func isGridEngine(c cursor) bool {
	if c.readWord() == "" || c.skipByte('=') || c.skipByte(',') {
		return false
	}
	for c.skipBlanks(); !c.atEnd(); c.skipBlanks() {
		word := c.readWord()
		if !c.skipByte('=') {
			return allDigits(word)
		}
		c.skipBlanks()
		if _, err := c.readValue(); err != nil {
			return false
		}
	}
	return false
}

// parseGridEngine parses a line of Grid Engine's PE_HOSTFILE. It ignores words after the slot count except known
// attributes, such as max_slots.
func (p *parser) parseGridEngine(c cursor) {
	if p.names > p.maxNames {
		return
	}
	from := c.pos
	c.readWord()
	hosts, few := p.addHosts(&c, from, nil)
	if !few {
		return
	}
	word := func() string {
		c.skipBlanks()
		from = c.pos
		return c.readWord()
	}
	count := word()
	for ; c.skipByte('='); count = word() {
		p.parseAttribute(&c, from, count, hosts)
	}
	p.setSlots(&c, from, count, hosts)
	for c.skipBlanks(); !c.atEnd(); c.skipBlanks() {
		from := c.pos
		key, _, assigned := strings.Cut(c.rest(), "=")
		if _, known := attrKeyOf(key); known && assigned {
			c.pos += len(key) + 1
			p.parseAttribute(&c, from, key, hosts)
			continue
		}
		for !c.atEnd() && c.text[c.pos] != ' ' && c.text[c.pos] != '\t' {
			c.pos++
		}
	}
	p.addEntries(hosts)
}

// setSlots sets the slot count of the hosts of a line.
func (p *parser) setSlots(c *cursor, start int, count string, hosts []hostExpr) {
	slots, err := c.readNumber(start, c.pos, count, "slot count", maxSlots)
	if err != nil {
		p.addError(err)
	}
	for i := range hosts {
		switch m := hosts[i]; {
		case m.Slots != 0:
			p.addError(c.errorAt(start, c.pos, "the slot count is given twice"))
			return
		case m.Exclude:
			p.addError(c.errorAt(start, c.pos, "an excluded host cannot have slots"))
			return
		}
		hosts[i].Slots = slots
	}
}

// isDirective reports whether a line is a directive, which begins with "!".
func isDirective(c cursor) bool { return strings.HasPrefix(c.rest(), "!") }

// parseDirective parses "!include FILE", the only directive.
func (p *parser) parseDirective(c cursor) {
	from := c.pos
	c.pos++
	word := c.readWord()
	if word != "include" {
		p.addError(c.errorAt(from, c.pos, `unknown directive %q; there is only "!include FILE"`, "!"+word))
		return
	}
	c.skipBlanks()
	from = c.pos
	name, err := c.readValue()
	switch {
	case err != nil:
		p.addError(err)
		return
	case name == "":
		p.addError(c.errorAt(from, from, "the name of the file to include is missing"))
		return
	}
	to := c.pos
	if c.skipBlanks(); !c.atEnd() {
		p.addError(c.errorAt(c.pos, len(c.text), "only one file name may follow !include; put it in quotes if it has blanks"))
		return
	}
	c.pos = from
	p.parseInclude(c, to, name)
}
