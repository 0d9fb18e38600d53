package hostlist

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxRank is the highest rank a rank file may place, as placement.md 1.5 bounds -n.
const maxRank = 1<<20 - 1

// A RankLine is one line of a rank file (cli.md 4.3):
//
//	rank N[-M] = HOST slot = SLOTS
//
// Each of the ranks gets all of the slots.
type RankLine struct {
	First, Last int    // the ranks, from 0
	Host        Entry  // where they go; without a name if Index counts
	Index       int    // of "+nK": K, a place in the host list from 0; -1: Host has the name
	Slots       string // the CPUs, as written

	slots inclusion // where the slots stand
	from  int       // in bytes
}

// A SlotCheck says what is wrong with a list of slots, and which bytes of it are at
// fault; err is nil if it is well.
type SlotCheck func(slots string) (from, to int, err error)

// Fault is an error about the bytes [from, to) of the line's slots.
func (l RankLine) Fault(from, to int, reason string) *SyntaxError {
	return l.slots.fault(l.from+from, l.from+to, "%s", reason)
}

// HostFault is an error about the line's host.
func (l RankLine) HostFault(reason string) *SyntaxError { return l.Host.fault("%s", reason) }

// ReadRanks reads a rank file, which places each rank once at most. All errors are
// returned together, as ReadFile does. A file without ranks is an error.
func ReadRanks(name string, open func(name string) (io.ReadCloser, error), check SlotCheck) ([]RankLine, error) {
	r := rankReader{parser: parser{open: open}, check: check, placed: make(map[int]int)}
	text, err := r.read(name)
	if err != nil {
		return nil, errors.New("rank file " + name + ": " + reason(err))
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		c := cursor{inclusion: inclusion{file: name, line: number, text: strings.TrimRight(line, "\r\n")}}
		if c.blanks(); c.end() {
			continue
		}
		if l, err := r.line(&c); err != nil {
			r.add(err)
		} else {
			r.lines = append(r.lines, l)
		}
	}
	if r.none() && len(r.lines) == 0 {
		r.add(errors.New("no ranks in " + name))
	}
	return r.lines, r.err()
}

// A rankReader gathers the lines of a rank file.
type rankReader struct {
	parser
	check  SlotCheck
	lines  []RankLine
	placed map[int]int // the line of a rank
}

func (r *rankReader) line(c *cursor) (RankLine, error) {
	l := RankLine{Index: -1}
	if err := c.keyword("rank"); err != nil {
		return l, err
	}
	if err := r.ranks(c, &l); err != nil {
		return l, err
	}
	if err := c.rankHost(&l); err != nil {
		return l, err
	}
	if err := c.keyword("slot", "slots"); err != nil {
		return l, err
	}
	if !c.take('=') {
		return l, c.fault(c.pos, c.pos+1, `"=" and the slots are missing`)
	}
	return l, r.slotList(c, &l)
}

// keyword reads one of some words; case does not count.
func (c *cursor) keyword(words ...string) error {
	c.blanks()
	from := c.pos
	word := c.word()
	for _, w := range words {
		if strings.EqualFold(w, word) {
			return nil
		}
	}
	return c.fault(from, max(c.pos, from+1), `%q where %q should be: a line is "rank N=HOST slot=SLOTS"`, word, words[0])
}

// ranks reads "N =" or "N-M =".
func (r *rankReader) ranks(c *cursor, l *RankLine) error {
	c.blanks()
	from := c.pos
	word := c.word()
	low, high, isRange := strings.Cut(word, "-")
	var err error
	if l.First, err = c.rank(from, low); err != nil {
		return err
	}
	l.Last = l.First
	if isRange {
		if l.Last, err = c.rank(c.pos-len(high), high); err != nil {
			return err
		}
	}
	if l.Last < l.First {
		return c.fault(from, c.pos, "the range %q runs backwards", word)
	}
	for rank := l.First; rank <= l.Last; rank++ {
		if line, twice := r.placed[rank]; twice {
			return c.fault(from, c.pos, "rank %d is placed here and at line %d", rank, line)
		}
		r.placed[rank] = c.line
	}
	if !c.take('=') {
		return c.fault(c.pos, c.pos+1, `"=" and a host are missing`)
	}
	return nil
}

func (c *cursor) rank(from int, word string) (int, error) {
	n, err := strconv.Atoi(word)
	switch {
	case !digits(word):
		return 0, c.fault(from, from+len(word), "%q is not the number of a rank", word)
	case err != nil || n > maxRank:
		return 0, c.fault(from, from+len(word), "rank %s is too large; at most %d", word, maxRank)
	}
	return n, nil
}

// rankHost reads a host, or "+nK".
func (c *cursor) rankHost(l *RankLine) error {
	c.blanks()
	from := c.pos
	word := c.word()
	if count, relative := strings.CutPrefix(strings.ToLower(word), "+n"); relative {
		n, err := strconv.Atoi(count)
		if !digits(count) || err != nil || n > maxNames {
			return c.fault(from, c.pos, "%q is not +n and a number", word)
		}
		at := c.fault(from, c.pos, "")
		l.Index, l.Host = n, Entry{File: c.file, Line: c.line, Col: at.Col, text: c.text, width: at.Width}
		return nil
	}
	m, err := c.mention(from, c.pos)
	switch {
	case err != nil:
		return err
	case m.Exclude || m.Slots != 0 || m.User != "" || len(m.names) != 1:
		return c.fault(from, c.pos, "%q is not the name of one host", word)
	}
	l.Host = m.Entry
	l.Host.Host = m.names[0]
	return nil
}

// slotList keeps the rest of the line, without quotes around it, and has it checked.
func (r *rankReader) slotList(c *cursor, l *RankLine) error {
	c.blanks()
	from := c.pos
	text, _, _ := strings.Cut(c.rest(), "#")
	text = strings.TrimRight(text, " \t")
	if n := len(text); n > 1 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		text, from = text[1:n-1], from+1
	}
	l.Slots, l.slots, l.from = text, c.inclusion, from
	if at, to, err := r.check(text); err != nil {
		return l.Fault(at, to, err.Error())
	}
	return nil
}

// A NodeIndex is the place in the host list of one rank of a -rankmap.
type NodeIndex struct {
	Node int // from 0
	item inclusion
	from int
	to   int
}

// Fault is an error about the item of the map that says so.
func (n NodeIndex) Fault(reason string) *SyntaxError { return n.item.fault(n.from, n.to, "%s", reason) }

// ParseRankMap reads Hydra's map of ranks to nodes, one item for each rank:
//
//	0,0,1,1                     the node of each rank
//	(0,2,4),(2,1,8)             blocks (start,nodes,ranks): ranks on each of nodes from start
//	(vector,(0,2,4))            the same, as PMI_process_mapping writes it
func ParseRankMap(origin, text string) ([]NodeIndex, error) {
	c := cursor{inclusion: inclusion{file: origin, text: text}, list: true}
	end := len(text)
	if inside, is := strings.CutPrefix(text, "(vector,"); is && strings.HasSuffix(inside, ")") {
		c.pos, end = len("(vector,"), end-1
	}
	var all []NodeIndex
	for {
		block := strings.HasPrefix(text[c.pos:end], "(")
		size := strings.IndexByte(text[c.pos:end], ',')
		if block {
			size = strings.IndexByte(text[c.pos:end], ')') + 1
		}
		if size < 0 || block && size == 0 {
			size = end - c.pos
		}
		items, err := c.mapItem(c.pos, c.pos+size, block)
		if err != nil {
			return nil, err
		}
		if len(all)+len(items) > maxRank+1 {
			return nil, c.fault(c.pos, c.pos+size, "more than %d ranks in all", maxRank+1)
		}
		all = append(all, items...)
		if c.pos += size; c.pos >= end {
			return all, nil
		}
		if text[c.pos] != ',' {
			return nil, c.fault(c.pos, c.pos+1, "a comma should be between the items")
		}
		c.pos++
	}
}

// mapItem reads one number, or one block.
func (c *cursor) mapItem(from, to int, block bool) ([]NodeIndex, error) {
	word := c.text[from:to]
	start, nodes, ranks := word, "1", "1"
	if block {
		parts := strings.Split(strings.TrimSuffix(word[1:], ")"), ",")
		if len(parts) != 3 || !strings.HasSuffix(word, ")") {
			return nil, c.fault(from, to, "%q is not a block (start,nodes,ranks)", word)
		}
		start, nodes, ranks = parts[0], parts[1], parts[2]
	}
	var numbers [3]int
	for i, text := range []string{start, nodes, ranks} {
		n, err := strconv.Atoi(text)
		if !digits(text) || err != nil || n > maxRank {
			return nil, c.fault(from, to, "%q is not the number of a node, nor a block (start,nodes,ranks)", word)
		}
		numbers[i] = n
	}
	if numbers[1]*numbers[2] > maxRank+1 {
		return nil, c.fault(from, to, "more than %d ranks in all", maxRank+1)
	}
	if numbers[1]*numbers[2] == 0 {
		return nil, c.fault(from, to, "the block %s has no ranks", word)
	}
	items := make([]NodeIndex, 0, numbers[1]*numbers[2])
	for node := range numbers[1] {
		for range numbers[2] {
			items = append(items, NodeIndex{numbers[0] + node, c.inclusion, from, to})
		}
	}
	return items, nil
}

// Missing lists the ranks below n that no line places, folded: "2-3,7"; none is "".
func Missing(lines []RankLine, n int) string {
	placed := make([]bool, n)
	for _, l := range lines {
		for rank := l.First; rank <= l.Last && rank < n; rank++ {
			placed[rank] = true
		}
	}
	var spans []string
	for from := 0; from < n; from++ {
		if placed[from] {
			continue
		}
		to := from
		for to+1 < n && !placed[to+1] {
			to++
		}
		span := strconv.Itoa(from)
		if to > from {
			span += fmt.Sprintf("-%d", to)
		}
		spans, from = append(spans, span), to
	}
	return strings.Join(spans, ",")
}
