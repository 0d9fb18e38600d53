package hostlist

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxRank is the highest rank that a rank file may name. -n has the same limit (placement.md 1.5).
const maxRank = 1<<20 - 1

// A RankLine is one line of a rank file (cli.md 4.3):
//
//	rank N[-M] = HOST slot = SLOTS
//
// Each of the ranks N to M gets all of the slots.
type RankLine struct {
	First, Last int    // the ranks, from 0
	Host        Entry  // where they run; without a name if Index is used
	Index       int    // of "+nK": K, the position in the host list, from 0; -1 if Host has the name
	Slots       string // the CPUs, as written

	slotSource sourceLine // the line that contains the slots
	slotFrom   int        // position of the slots, in bytes
}

// A SlotCheck returns an error if a list of slots is invalid. The bytes [start, end) of slots are the invalid part.
type SlotCheck func(slots string) (start, end int, err error)

// SlotError returns an error about a part of l.Slots, the bytes [start, end).
func (l RankLine) SlotError(start, end int, reason string) *SyntaxError {
	return l.slotSource.errorAt(l.slotFrom+start, l.slotFrom+end, "%s", reason)
}

// HostError returns an error about the host in the line.
func (l RankLine) HostError(reason string) *SyntaxError { return l.Host.errorAt("%s", reason) }

// ReadRanks reads a rank file. It is an error if the file places a rank twice or places no rank. ReadRanks returns
// all errors together, as ReadFile does.
func ReadRanks(name string, open func(name string) (io.ReadCloser, error), check SlotCheck) ([]RankLine, error) {
	r := rankReader{parser: parser{open: open}, check: check, lineOfRank: make(map[int]int)}
	text, err := r.readFile(name)
	if err != nil {
		return nil, errors.New("rank file " + name + ": " + openReason(err))
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		c := cursor{sourceLine: sourceLine{file: name, line: number, text: strings.TrimRight(line, "\r\n")}}
		if c.skipBlanks(); c.atEnd() {
			continue
		}
		if l, err := r.readRankLine(&c); err != nil {
			r.addError(err)
		} else {
			r.lines = append(r.lines, l)
		}
	}
	if r.isEmpty() && len(r.lines) == 0 {
		r.addError(errors.New("the rank file contains no ranks: " + name))
	}
	return r.lines, r.asError()
}

// A rankReader collects the lines of a rank file and the errors in these lines.
type rankReader struct {
	parser
	check      SlotCheck
	lines      []RankLine
	lineOfRank map[int]int // line number, by rank
}

func (r *rankReader) readRankLine(c *cursor) (RankLine, error) {
	l := RankLine{Index: -1}
	if err := c.readKeyword("rank"); err != nil {
		return l, err
	}
	if err := r.readRanks(c, &l); err != nil {
		return l, err
	}
	if err := c.readRankHost(&l); err != nil {
		return l, err
	}
	if err := c.readKeyword("slot", "slots"); err != nil {
		return l, err
	}
	if !c.skipByte('=') {
		return l, c.errorAt(c.pos, c.pos+1, `"=" and the slots are missing`)
	}
	return l, r.readSlotList(c, &l)
}

// readKeyword reads one of the given keywords. It ignores case and returns an error if another word follows.
func (c *cursor) readKeyword(keywords ...string) error {
	c.skipBlanks()
	from := c.pos
	word := c.readWord()
	for _, w := range keywords {
		if strings.EqualFold(w, word) {
			return nil
		}
	}
	return c.errorAt(from, max(c.pos, from+1), `the line has %q instead of %q; write "rank N=HOST slot=SLOTS"`, word, keywords[0])
}

// readRanks reads "N =" or "N-M =" and stores the ranks in l.
func (r *rankReader) readRanks(c *cursor, l *RankLine) error {
	c.skipBlanks()
	from := c.pos
	word := c.readWord()
	low, high, isRange := strings.Cut(word, "-")
	var err error
	if l.First, err = c.readRank(from, low); err != nil {
		return err
	}
	l.Last = l.First
	if isRange {
		if l.Last, err = c.readRank(c.pos-len(high), high); err != nil {
			return err
		}
	}
	if l.Last < l.First {
		return c.errorAt(from, c.pos, "the range %q must begin with the smaller number", word)
	}
	for rank := l.First; rank <= l.Last; rank++ {
		if line, twice := r.lineOfRank[rank]; twice {
			return c.errorAt(from, c.pos, "rank %d is listed twice, here and in line %d", rank, line)
		}
		r.lineOfRank[rank] = c.line
	}
	if !c.skipByte('=') {
		return c.errorAt(c.pos, c.pos+1, `"=" and a host are missing`)
	}
	return nil
}

func (c *cursor) readRank(start int, word string) (int, error) {
	n, err := strconv.Atoi(word)
	switch {
	case !allDigits(word):
		return 0, c.errorAt(start, start+len(word), "%q is not the number of a rank", word)
	case err != nil || n > maxRank:
		return 0, c.errorAt(start, start+len(word), "rank %s is too large; the maximum is %d", word, maxRank)
	}
	return n, nil
}

// readRankHost reads a host name, or "+nK", which stands for host K of the host list, and stores it in l.
func (c *cursor) readRankHost(l *RankLine) error {
	c.skipBlanks()
	from := c.pos
	word := c.readWord()
	if count, relative := strings.CutPrefix(strings.ToLower(word), "+n"); relative {
		n, err := strconv.Atoi(count)
		if !allDigits(count) || err != nil || n > maxNames {
			return c.errorAt(from, c.pos, "%q is not valid here; write +nK with a number K", word)
		}
		at := c.errorAt(from, c.pos, "")
		l.Index, l.Host = n, Entry{File: c.file, Line: c.line, Col: at.Col, text: c.text, width: at.Width}
		return nil
	}
	m, err := c.readHostExpr(from, c.pos)
	switch {
	case err != nil:
		return err
	case m.Exclude || m.Slots != 0 || m.User != "" || len(m.names) != 1:
		return c.errorAt(from, c.pos, "%q is not the name of one host", word)
	}
	l.Host = m.Entry
	l.Host.Host = m.names[0]
	return nil
}

// readSlotList reads the rest of the line as a list of slots and stores the list in l. It removes quotes around the
// list, and returns an error if the list is invalid.
func (r *rankReader) readSlotList(c *cursor, l *RankLine) error {
	c.skipBlanks()
	from := c.pos
	text, _, _ := strings.Cut(c.rest(), "#")
	text = strings.TrimRight(text, " \t")
	if n := len(text); n > 1 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		text, from = text[1:n-1], from+1
	}
	l.Slots, l.slotSource, l.slotFrom = text, c.sourceLine, from
	if at, to, err := r.check(text); err != nil {
		return l.SlotError(at, to, err.Error())
	}
	return nil
}

// A NodeIndex says, as an index into the host list, on which node -rankmap places one rank.
type NodeIndex struct {
	Node   int // from 0
	source sourceLine
	from   int
	to     int
}

// ErrorAt returns an error about the item in the value of -rankmap that specifies this index.
func (n NodeIndex) ErrorAt(reason string) *SyntaxError {
	return n.source.errorAt(n.from, n.to, "%s", reason)
}

// ParseRankMap parses Hydra's map of ranks to nodes. The result has one element for each rank:
//
//	0,0,1,1                     the node of each rank
//	(0,2,4),(2,1,8)             blocks (start,nodes,ranks): each of these nodes has this number of ranks
//	(vector,(0,2,4))            the same blocks, as PMI_process_mapping writes them
func ParseRankMap(origin, text string) ([]NodeIndex, error) {
	c := cursor{sourceLine: sourceLine{file: origin, text: text}, isList: true}
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
		items, err := c.readMapItem(c.pos, c.pos+size, block)
		if err != nil {
			return nil, err
		}
		if len(all)+len(items) > maxRank+1 {
			return nil, c.errorAt(c.pos, c.pos+size, "the file has more than %d ranks", maxRank+1)
		}
		all = append(all, items...)
		if c.pos += size; c.pos >= end {
			return all, nil
		}
		if text[c.pos] != ',' {
			return nil, c.errorAt(c.pos, c.pos+1, "a comma is missing between the items")
		}
		c.pos++
	}
}

// readMapItem parses the bytes [begin, end) of a rank map: a block of nodes if block is true, else a number.
func (c *cursor) readMapItem(begin, end int, block bool) ([]NodeIndex, error) {
	word := c.text[begin:end]
	start, nodes, ranks := word, "1", "1"
	if block {
		parts := strings.Split(strings.TrimSuffix(word[1:], ")"), ",")
		if len(parts) != 3 || !strings.HasSuffix(word, ")") {
			return nil, c.errorAt(begin, end, "%q is not a block (start,nodes,ranks)", word)
		}
		start, nodes, ranks = parts[0], parts[1], parts[2]
	}
	var numbers [3]int
	for i, text := range []string{start, nodes, ranks} {
		n, err := strconv.Atoi(text)
		if !allDigits(text) || err != nil || n > maxRank {
			return nil, c.errorAt(begin, end, "%q is neither the number of a node nor a block (start,nodes,ranks)", word)
		}
		numbers[i] = n
	}
	if numbers[1]*numbers[2] > maxRank+1 {
		return nil, c.errorAt(begin, end, "the file has more than %d ranks", maxRank+1)
	}
	if numbers[1]*numbers[2] == 0 {
		return nil, c.errorAt(begin, end, "the block %s has no ranks", word)
	}
	items := make([]NodeIndex, 0, numbers[1]*numbers[2])
	for node := range numbers[1] {
		for range numbers[2] {
			items = append(items, NodeIndex{numbers[0] + node, c.sourceLine, begin, end})
		}
	}
	return items, nil
}

// UnplacedRanks returns the ranks below n that no line places, in folded form: "2-3,7". It returns "" if all ranks
// are placed.
func UnplacedRanks(lines []RankLine, n int) string {
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
