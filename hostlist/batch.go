package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// TaskCounts reads Slurm's short form of counts for each node, as in
// SLURM_TASKS_PER_NODE and SLURM_JOB_CPUS_PER_NODE: "2(x3),1" is 2, 2, 2, 1.
func TaskCounts(text string) ([]int, error) {
	var all []int
	for item := range strings.SplitSeq(text, ",") {
		count, repeat, repeated := strings.Cut(strings.TrimSpace(item), "(x")
		times := 1
		if repeated {
			number, closed := strings.CutSuffix(repeat, ")")
			n, err := strconv.Atoi(number)
			if !closed || !digits(number) || err != nil || n < 1 {
				return nil, fmt.Errorf("%q is not a count of tasks such as 2 or 2(x3)", item)
			}
			times = n
		}
		n, err := strconv.Atoi(count)
		if !digits(count) || err != nil {
			return nil, fmt.Errorf("%q is not a count of tasks such as 2 or 2(x3)", item)
		}
		if times > maxNames-len(all) {
			return nil, fmt.Errorf("%q counts more than %d nodes", text, maxNames)
		}
		for range times {
			all = append(all, n)
		}
	}
	return all, nil
}

// Pairs reads LSF's LSB_MCPU_HOSTS, "a 4 b 4": names and slot counts in turn.
// The errors give origin for the file.
func Pairs(origin, text string) ([]Entry, error) {
	p := new(parser)
	c := cursor{source: source{file: origin, text: text}, list: true}
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
