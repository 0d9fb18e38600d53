package hostlist

import "fmt"

// Pairs reads LSF's LSB_MCPU_HOSTS, "a 4 b 4": names and slot counts in turn.
// The errors give origin for the file.
func Pairs(origin, text string) ([]Entry, error) {
	p := new(parser)
	c := cursor{inclusion: inclusion{file: origin, text: text}, list: true}
	for c.blanks(); !c.end(); c.blanks() {
		from := c.pos
		c.word()
		m, err := c.mention(from, c.pos)
		if err != nil {
			p.add(err)
			break
		}
		c.blanks()
		from = c.pos
		count := c.word()
		if m.Slots, err = c.number(from, c.pos, count, "slot count", maxSlots); err != nil {
			p.add(err)
			break
		}
		p.keep([]mention{m})
	}
	if len(p.entries) == 0 && p.none() {
		p.add(fmt.Errorf("%s: no host is named", origin))
	}
	return p.result()
}
