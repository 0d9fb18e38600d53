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

// An ID names a fence: its kind, its members, and the number of earlier fences of the same kind and members. Its text
// form is:
//
//	id      = [kind ["." tag] ":"] members "/" number
//	tag     = 16 hex digits                         for kinds with a tag
//	members = part *("," part)                      ascending by group
//	part    = group ["[" range *("," range) "]"]    without ranges: the whole group
//	range   = first ["-" last]                      ascending; adjacent ranges are joined
//
//	k0/3                   all ranks of group k0; their fourth fence
//	k0[0-15,32],k1[4]/0    some ranks of two groups; their first fence
//	connect:k0,k1/0        all ranks of two groups, to connect
//	construct.0123456789abcdef:k0/0                 all ranks of a group, to form a PMIx group
//	otherjobs.0123456789abcdef:k0/0                 all ranks of a group, to connect to another job
//
// Each fence has exactly one text form. Numbers have no leading zeros.
type ID struct {
	Kind    Kind
	Members Members
	Number  int
}

// A Kind is the purpose of a fence. Fences of different kinds are independent of each other, even if they
// have the same members. The fences of each kind are numbered separately.
type Kind string

// These are the kinds of fences.
const (
	Barrier    Kind = ""           // the barrier of PMI-1 and PMI-2
	PMIxFence  Kind = "fence"      // PMIx_Fence; the kinds below are of PMIx too
	Connect    Kind = "connect"    // PMIx_Connect, of several groups
	Disconnect Kind = "disconnect" // PMIx_Disconnect
	Construct  Kind = "construct"  // PMIx_Group_construct
	Destruct   Kind = "destruct"   // PMIx_Group_destruct
	OtherJobs  Kind = "otherjobs"  // of the processes of this job that connect to those of other jobs, or disconnect
)

// kinds are the kinds of fences that an ID may name without a tag. taggedKinds are the kinds that need a
// tag.
var (
	kinds       = []Kind{PMIxFence, Connect, Disconnect}
	taggedKinds = []Kind{Construct, Destruct, OtherJobs}
)

// WithTag adds a hash of name as a tag to k, which must be one of taggedKinds. With different tags, the same members
// may, for example, construct several PMIx groups at the same time. The number in an ID with a tag is the number of
// earlier fences that were given up.
func (k Kind) WithTag(name string) Kind {
	sum := sha256.Sum256([]byte(name))
	return k + Kind("."+hex.EncodeToString(sum[:tagSize]))
}

const tagSize = 8

// WithoutTag returns the kind without the tag that WithTag has added.
func (k Kind) WithoutTag() Kind {
	base, _, _ := strings.Cut(string(k), ".")
	return Kind(base)
}

// isKnown reports whether the kind may occur in an ID.
func (k Kind) isKnown() bool {
	_, tag, has := strings.Cut(string(k), ".")
	if !has {
		return slices.Contains(kinds, k)
	}
	raw, err := hex.DecodeString(tag)
	return err == nil && len(raw) == tagSize && tag == strings.ToLower(tag) && slices.Contains(taggedKinds, k.WithoutTag())
}

// Members are the ranks of a fence, as text in the notation that type ID describes.
type Members string

// WholeGroup returns the Members that stand for all ranks of a group.
func WholeGroup(group string) Members { return Members(group) }

// Group returns the name of the group if the members are exactly one whole group. Otherwise it returns "".
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

// Groups returns the names of the groups to which the members belong. It returns nil if m cannot be
// parsed.
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

// Matcher returns a function that reports whether a rank is a member. If m is empty, every rank is a member.
func (m Members) Matcher() (contains func(group string, rank int) bool, err error) {
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

// errID is returned for a string that is not a valid ID.
var errID = errors.New("the text is not the ID of a PMI fence")

// ParseID parses the text form of an ID, which ID.String returns.
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

// A part contains the members of a fence that belong to one group. If it has no ranges, the members are all ranks of
// the group.
type part struct {
	group  string
	ranges []rankRange
}

// A rankRange stands for the ranks from first to last, both included.
type rankRange struct{ first, last int }

func (p part) hasRank(rank int) bool {
	for _, r := range p.ranges {
		if r.first <= rank && rank <= r.last {
			return true
		}
	}
	return len(p.ranges) == 0
}

// parseParts parses the members. It returns one part for each group.
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

// parseRanges parses a list of ranges up to the closing bracket. rest is the text after the bracket.
func parseRanges(text string) (list []rankRange, rest string, ok bool) {
	inside, rest, closed := strings.Cut(text, "]")
	if !closed {
		return nil, "", false
	}
	free := 0 // the lowest first rank of the next range
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

// parseDecimal parses a decimal number without sign and leading zeros.
func parseDecimal(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == text
}
