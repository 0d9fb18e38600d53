package fence

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// An ID names a fence: who meets, what for, and how often just these have met so before. As text:
//
//	id      = [kind ["." tag] ":"] members "/" number
//	tag     = 16 hex digits                         of kinds that have one
//	members = part *("," part)                      by name, ascending
//	part    = group ["[" range *("," range) "]"]    no ranges: the whole group
//	range   = first ["-" last]                      ascending, with a gap between two
//
//	k0/3                   all ranks of group k0, who have met three times
//	k0[0-15,32],k1[4]/0    some of two groups, for the first time
//	connect:k0,k1/0        all of two groups, to be connected
//	construct.0123456789abcdef:k0/0                 all of a group, who become one of that name
//
// There is one text for each fence: numbers have no zeros in front.
type ID struct {
	Kind    Kind
	Members Members
	Number  int
}

// A Kind is what a fence is for. Fences of two kinds never meet, though they have the same
// members: each kind counts for itself.
type Kind string

// The kinds.
const (
	Barrier    Kind = ""           // of PMI-1 and PMI-2
	PMIxFence  Kind = "fence"      // of PMIx, as all that follow
	Connect    Kind = "connect"    // of groups that want to talk to each other
	Disconnect Kind = "disconnect" // and no more
	Construct  Kind = "construct"  // of a group of processes that has a name
	Destruct   Kind = "destruct"   // and no more
)

// kinds are those that an ID may name without a tag, and tagged those with one.
var (
	kinds       = []Kind{PMIxFence, Connect, Disconnect}
	taggedKinds = []Kind{Construct, Destruct}
)

// WithTag sets fences of a kind apart by a name, for Construct and Destruct: several groups of the same
// members may be made at the same time, in any order. Their fences are not counted, since those who have
// met for a name may forget that they have: the number is how many of them were given up.
func (k Kind) WithTag(name string) Kind {
	sum := sha256.Sum256([]byte(name))
	return k + Kind("."+hex.EncodeToString(sum[:tagSize]))
}

const tagSize = 8

// WithoutTag is a kind without its tag.
func (k Kind) WithoutTag() Kind {
	base, _, _ := strings.Cut(string(k), ".")
	return Kind(base)
}

// isKnown reports whether an ID may name a kind.
func (k Kind) isKnown() bool {
	_, tag, has := strings.Cut(string(k), ".")
	if !has {
		return slices.Contains(kinds, k)
	}
	raw, err := hex.DecodeString(tag)
	return err == nil && len(raw) == tagSize && tag == strings.ToLower(tag) && slices.Contains(taggedKinds, k.WithoutTag())
}

// Members are the ranks that meet at a fence, as text.
type Members string

// WholeGroup returns all ranks of a group as members.
func WholeGroup(group string) Members { return Members(group) }

// Group returns the group that the members are, if they are a whole one; else nothing.
func (m Members) Group() string {
	if strings.ContainsAny(string(m), "[,") {
		return ""
	}
	return string(m)
}

func (id ID) String() string {
	text := string(id.Members) + "/" + strconv.Itoa(id.Number)
	if id.Kind != Barrier {
		text = string(id.Kind) + ":" + text
	}
	return text
}

// Groups lists the groups that have members; nil: they are not to be read.
func (m Members) Groups() (names []string) {
	parts, err := m.parseParts()
	if err != nil {
		return nil
	}
	for _, p := range parts {
		names = append(names, p.group)
	}
	return names
}

// Matcher returns what tells whether a rank of a group is a member; of no members everybody is one.
func (m Members) Matcher() (has func(group string, rank int) bool, err error) {
	if m == "" {
		return func(string, int) bool { return true }, nil
	}
	parts, err := m.parseParts()
	if err != nil {
		return nil, err
	}
	return func(group string, rank int) bool {
		i := slices.IndexFunc(parts, func(p part) bool { return p.group == group })
		return i >= 0 && parts[i].hasRank(rank)
	}, nil
}

// errID is the fault of a text that names no fence.
var errID = errors.New("names no fence")

// ParseID reads what String has written.
func ParseID(text string) (ID, error) {
	i := strings.LastIndexByte(text, '/')
	if i < 0 {
		return ID{}, errID
	}
	number, ok := parseDecimal(text[i+1:])
	id := ID{Number: number}
	kind, members, named := strings.Cut(text[:i], ":")
	switch {
	case !named:
		members = kind
	case !Kind(kind).isKnown():
		return ID{}, errID
	default:
		id.Kind = Kind(kind)
	}
	id.Members = Members(members)
	if _, err := id.Members.parseParts(); err != nil || !ok {
		return ID{}, errID
	}
	return id, nil
}

// A part is what one group has in a fence; no ranges: all of it.
type part struct {
	group  string
	ranges []rankRange
}

// A rankRange is the ranks from first to last.
type rankRange struct{ first, last int }

func (p part) hasRank(rank int) bool {
	for _, r := range p.ranges {
		if r.first <= rank && rank <= r.last {
			return true
		}
	}
	return len(p.ranges) == 0
}

// parseParts takes members apart.
func (m Members) parseParts() (all []part, err error) {
	for rest := string(m); ; {
		end := strings.IndexAny(rest, "[,")
		if end < 0 {
			end = len(rest)
		}
		p := part{group: rest[:end]}
		if rest = rest[end:]; strings.HasPrefix(rest, "[") {
			var ok bool
			if p.ranges, rest, ok = parseRanges(rest[1:]); !ok {
				return nil, errID
			}
		}
		if p.group == "" || strings.ContainsAny(p.group, "]/:") || len(all) > 0 && p.group <= all[len(all)-1].group {
			return nil, errID
		}
		all = append(all, p)
		if rest == "" {
			return all, nil
		}
		if rest[0] != ',' {
			return nil, errID
		}
		rest = rest[1:]
	}
}

// parseRanges reads a list of ranges up to its bracket.
func parseRanges(text string) (list []rankRange, rest string, ok bool) {
	inside, rest, closed := strings.Cut(text, "]")
	if !closed {
		return nil, "", false
	}
	free := 0 // the lowest number that the next may begin with
	for r := range strings.SplitSeq(inside, ",") {
		lower, upper, two := strings.Cut(r, "-")
		first, ok := parseDecimal(lower)
		last := first
		if two && ok {
			last, ok = parseDecimal(upper)
		}
		if !ok || first < free || two && last <= first || last > math.MaxInt32 {
			return nil, "", false
		}
		list, free = append(list, rankRange{first, last}), last+2
	}
	return list, rest, true
}

// parseDecimal reads a number as it is written shortest.
func parseDecimal(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == text
}
