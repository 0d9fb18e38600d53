package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/job"
)

// These constants limit the number and size of one user's files (rule TRUST-14), the number of users, and how many
// names are read from the ledger directory. If the directory has more names, user directories are looked up by
// name.
const (
	maxFiles  = 10_000
	maxBytes  = 16 << 20
	maxUsers  = 4096
	maxListed = 10_000
)

// These constants limit values in an entry. For comparison, a claim of 100,000 ranks takes about 3 MiB.
const (
	maxText         = 4 << 20   // bytes of a file
	maxStacksText   = 1 << 20   // bytes of the stacks in a reply
	maxGPUs         = 256       // of a claim, and of a node
	maxCount        = 1<<31 - 1 // ranks and nodes of a job
	maxCPU          = 1 << 16   // number of a CPU
	maxNumber       = 1 << 62   // number of a ticket
	maxGangMemory   = 1 << 60   // bytes that all gangs may need
	maxAddress      = 16        // bytes of an address on the PCI bus
	maxLine         = 4096      // bytes of a command or summary
	maxRequestArgs  = 64        // arguments of a request
	maxRequestBytes = 16 << 10  // bytes of a request
	maxTicketGap    = 1e9       // largest gap between the numbers of honest tickets
	maxFirstTicket  = 1e15      // largest number at the head of an honest queue
	maxNameText     = 16 << 10  // bytes of the file of a published name
	maxNameBytes    = 4 << 10   // bytes of a published name with its port and value
)

// These are the kinds of entries. Each is the prefix of a file name.
const (
	kindClaim   = "claim-"
	kindTicket  = "ticket-"
	kindLock    = "gate-" // decision lock
	kindRequest = "ask-"  // control request to a job (SV-24)
	kindReply   = "answer-"
	kindName    = "name-" // name that a rank has published for ranks of other jobs
	kindNew     = "new-"  // file that is not published yet
	anyLedger   = "remshell-"
)

// namePrefix returns the common prefix of the names of the user directories of one node. It contains a hash of the
// node's identity, which distinguishes hosts that share a file system. The identity itself is secret.
func namePrefix(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	return anyLedger + hex.EncodeToString(sum[:8]) + "-"
}

// ticketName returns the name of a ticket's file. The number is padded with zeros, so that sorting by name
// sorts by number.
func ticketName(number int64, random string) string {
	return fmt.Sprintf("%s%020d-%s", kindTicket, number, random)
}

// maxClaimSize returns the maximum size, in bytes, of a claim with the given number of ranks (rule TRUST-15).
func maxClaimSize(ranks int) int64 { return 64<<10 + 64*int64(ranks) }

// These types are the contents of files in the ledger. Each file begins with its own name. A file with another name,
// such as a hard link, is ignored. So no file is read as two entries, and no user can give a ticket a lower number.
type (
	claimText struct {
		File string `json:"file"`
		Claim
	}
	ticketText struct {
		File string `json:"file"`
		Ticket
	}
	requestText struct {
		File string `json:"file"`
		job.ControlRequest
	}
	nameText struct {
		File string `json:"file"`
		Name
	}
	replyText struct {
		File string `json:"file"`
		job.ControlReply
		Ranks  replyStates  `json:"data,omitempty"`
		Stacks *replyStacks `json:"stacks,omitempty"`
	}
)

// replyStates are the states of ranks in a reply. They are decoded one by one, up to the maximum number that this
// program writes. Without this limit, a large list could take fifty times as much memory as its file.
type replyStates []job.NodeRankState

// replyStacks are the stacks in a reply. They are decoded only up to the maximum size of a report.
type replyStacks job.StackReport

func (s *replyStacks) UnmarshalJSON(text []byte) error {
	if len(text) > maxStacksText {
		return errors.New("the stacks in the reply are too long")
	}
	var r job.StackReport
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	*s = replyStacks(r.Truncated())
	return nil
}

func (s *replyStates) UnmarshalJSON(text []byte) error {
	if len(*s) == job.MaxRankStates {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start == nil {
		return err // null
	} else if start != json.Delim('[') {
		return errors.New("the states of ranks are not a list")
	}
	for one := new(job.NodeRankState); len(*s) < job.MaxRankStates && d.More(); *s = append(*s, one.Truncated()) {
		*one = job.NodeRankState{}
		if err := d.Decode(one); err != nil {
			return err
		}
	}
	return nil
}

// fileStart returns the first bytes of a file with the given name. They are the same in all versions of the
// program.
func fileStart(name string) []byte { return []byte(`{"file":"` + name + `"`) }

// WarmUpJSON makes encoding/json prepare its encoder for claims. This takes 0.2 ms once, so it should be called before
// the first claim is needed.
func WarmUpJSON() { encode(claimText{}) }

func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("the entry has %d bytes, but at most %d are allowed", len(text), maxText)
	}
	return text, err
}

// decodeClaim decodes a claim from the contents of a file with the given name and owner. It returns an error if the
// contents are not a valid claim. It truncates long texts, and drops an unknown idle reason and impossible gang
// data.
func decodeClaim(name string, owner int, text []byte) (Claim, error) {
	var c claimText
	if err := decodeAs(name, owner, text, &c, func() (string, int) { return c.File, c.UID }); err != nil {
		return Claim{}, err
	}
	if err := checkClaim(c.Claim); err != nil {
		return Claim{}, err
	}
	for _, p := range []*string{&c.User, &c.LauncherHost, &c.Node, &c.Command, &c.RM, &c.Class, &c.NodeSet} {
		*p = truncate(*p)
	}
	if !c.IdleReason.IsKnown() {
		c.IdleReason = ""
	}
	if c.Gang != nil && !c.Gang.IsValid() {
		c.Gang = nil // it shares its CPUs with nobody
	}
	return c.Claim, nil
}

// decodeTicket decodes a ticket from the contents of a file with the given name and owner. The file name must contain
// the ticket's number.
func decodeTicket(name string, owner int, text []byte) (Ticket, error) {
	var t ticketText
	if err := decodeAs(name, owner, text, &t, func() (string, int) { return t.File, t.UID }); err != nil {
		return Ticket{}, err
	}
	if err := checkTicket(t.Ticket); err != nil {
		return Ticket{}, err
	}
	if t.Number < 1 || t.Number > maxNumber || !strings.HasPrefix(name, ticketName(t.Number, "")) {
		return Ticket{}, fmt.Errorf("number %d", t.Number)
	}
	for _, p := range []*string{&t.User, &t.LauncherHost, &t.Summary, &t.Nodes, &t.NodeSet} {
		*p = truncate(*p)
	}
	return t.Ticket, nil
}

// A Name is a name that a rank has published for ranks of other jobs (MPI_Publish_name). The fields Name,
// Port and Value come from the rank and may contain any bytes.
type Name struct {
	Job   job.ID `json:"job"`
	UID   int    `json:"uid"`
	Name  []byte `json:"name"`
	Port  []byte `json:"port,omitempty"`  // for ranks that use PMI
	Value []byte `json:"value,omitempty"` // for ranks that use PMIx; nil if the publisher does not
	Once  bool   `json:"once,omitempty"`  // the first look-up by its user removes it
}

// nameFilePrefix returns the beginning of the file names of all entries for a published name. It contains a
// hash of the name, because the name may contain any bytes.
func nameFilePrefix(name []byte) string {
	sum := sha256.Sum256(name)
	return kindName + hex.EncodeToString(sum[:8]) + "-"
}

// decodeName decodes a published name from the contents of a file with the given name and owner.
func decodeName(file string, owner int, text []byte) (Name, error) {
	var n nameText
	if err := decodeAs(file, owner, text, &n, func() (string, int) { return n.File, n.UID }); err != nil {
		return Name{}, err
	}
	if random, is := strings.CutPrefix(file, nameFilePrefix(n.Name.Name)); !is {
		return Name{}, errors.New("the file holds another name")
	} else if err := checkRandom(random); err != nil {
		return Name{}, err
	}
	return n.Name, checkName(n.Name)
}

// ErrNameTooLong is returned if a published name, together with its port and value, is too long.
var ErrNameTooLong = fmt.Errorf("the name, its port and its value have more than %d bytes in total", maxNameBytes)

// checkName returns an error for a published name that this program cannot have written.
func checkName(n Name) error {
	if len(n.Name)+len(n.Port)+len(n.Value) > maxNameBytes {
		return ErrNameTooLong
	}
	return checkID(n.Job)
}

// decodeAs decodes the contents of a file into t, and returns an error if t contains a different file name or owner.
// nameAndOwner returns these two from t.
func decodeAs(name string, owner int, text []byte, t any, nameAndOwner func() (file string, uid int)) error {
	if err := json.Unmarshal(text, t); err != nil {
		return err
	}
	if file, uid := nameAndOwner(); file != name || uid != owner {
		return fmt.Errorf("the contents name file %q of uid %d, but this is %q of uid %d", file, uid, name, owner)
	}
	return nil
}

// checkRequest returns an error for a request that this program cannot have written.
func checkRequest(a job.ControlRequest) error {
	if !slices.Contains(job.Verbs, a.Verb) {
		return fmt.Errorf("verb %.60q", a.Verb)
	}
	size := 0
	for _, word := range a.Args {
		size += len(word)
	}
	if len(a.Args) > maxRequestArgs || size > maxLine {
		return fmt.Errorf("the arguments of the request are too long: %d words, %d bytes", len(a.Args), size)
	}
	return errors.Join(checkID(a.Job), checkTime(a.Since))
}

// checkReply returns an error for a reply that this program cannot have written.
func checkReply(a job.ControlReply) error {
	if !a.State.IsKnown() {
		return fmt.Errorf("state %.60q", a.State)
	}
	return checkID(a.Job)
}

// checkRandom returns an error if s cannot be a result of randomName.
func checkRandom(s string) error {
	if raw, err := hex.DecodeString(s); err != nil || len(raw) != 8 || strings.ToLower(s) != s {
		return fmt.Errorf("%.60q is not the random part of a file name", s)
	}
	return nil
}

// checkClaim returns an error for a claim that cannot come from any plan.
func checkClaim(c Claim) error {
	if err := errors.Join(checkID(c.Job), checkCount("nodes", c.Nodes), checkCount("size", c.Size), checkCount("PID", c.PID), checkCount("PID of mpiexec", c.LauncherPID), checkCount("depth", c.CPUsPerRank), checkCount("shape", c.ExactPerNode), checkTime(c.Since)); err != nil {
		return err
	}
	if c.ParentJob != "" {
		if err := checkID(c.ParentJob); err != nil {
			return err
		}
	}
	for _, rank := range c.Ranks {
		if err := checkCount("rank", rank.Rank); err != nil {
			return err
		}
		for _, cpu := range rank.CPUs {
			if cpu < 0 || cpu >= maxCPU {
				return fmt.Errorf("rank %d: CPU %d", rank.Rank, cpu)
			}
		}
		for _, address := range rank.GPUs {
			if len(address) > maxAddress || strings.Trim(address, "0123456789abcdef:.") != "" {
				return fmt.Errorf("rank %d: GPU %.60q", rank.Rank, address)
			}
		}
	}
	return nil
}

// checkTicket returns an error for a ticket with impossible values. It does not check the ticket's number.
func checkTicket(t Ticket) error {
	return errors.Join(checkID(t.Job), checkCount("size", t.Size), checkCount("CPUs", t.CPUs), checkCount("PID", t.PID), checkCount("shape", t.ExactPerNode), checkCount("ranks on a node", t.PerNode), checkCount("delay", t.MaxSetDelay), checkTime(t.Since), checkTime(t.SetDelayEnd))
}

// checkPlausible returns an error for an impossible claim of another user (rule TRUST-15). A claim is impossible if a
// node with the given number of CPUs cannot have such a claim, or if it contains a rank or a GPU twice. size is the
// length of the claim in bytes, and ranks is the maximum number of its ranks.
func checkPlausible(c Claim, size, cpus, ranks int) error {
	if n := len(c.Ranks); n > ranks || int64(size) > maxClaimSize(n) {
		return fmt.Errorf("the claim is invalid: a claim of %d ranks cannot have %d bytes", n, size)
	}
	seen, gpus := make(map[int]bool, len(c.Ranks)), make(map[string]bool)
	for _, rank := range c.Ranks {
		if seen[rank.Rank] || len(rank.CPUs) > cpus {
			return fmt.Errorf("rank %d is listed twice, or has too many CPUs (%d)", rank.Rank, len(rank.CPUs))
		}
		seen[rank.Rank] = true
		for i, cpu := range rank.CPUs {
			if cpu >= cpus || i > 0 && cpu <= rank.CPUs[i-1] {
				return fmt.Errorf("rank %d: CPU %d", rank.Rank, cpu)
			}
		}
		for _, address := range rank.GPUs {
			if gpus[address] || len(gpus) == maxGPUs {
				return fmt.Errorf("rank %d: GPU %s", rank.Rank, address)
			}
			gpus[address] = true
		}
	}
	return nil
}

// checkID returns an error if a job ID does not consist of 1 to 40 letters, digits and characters of "_.-". Job IDs are
// parts of file names.
func checkID(id job.ID) error {
	if len(id) == 0 || len(id) > 40 {
		return fmt.Errorf("job ID %.60q has %d bytes, but must have 1 to 40", id, len(id))
	}
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("_.-", c) >= 0:
		default:
			return fmt.Errorf("job ID %q: the character %q is not allowed", id, c)
		}
	}
	return nil
}

func checkCount(kind string, n int) error {
	if n < 0 || n > maxCount {
		return fmt.Errorf("%s: %d", kind, n)
	}
	return nil
}

// checkTime returns an error for a time that JSON cannot represent.
func checkTime(t time.Time) error {
	if y := t.Year(); y < 1 || y > 9999 {
		return fmt.Errorf("year %d", y)
	}
	return nil
}

// truncate limits the length of a string from another user, and makes the string valid UTF-8. It does not remove
// control characters, which format.EscapeSentence escapes when the string is printed (rule TRUST-28).
func truncate(s string) string {
	if len(s) > maxLine {
		s = s[:maxLine]
	}
	return strings.ToValidUTF8(s, "")
}

// nextNumber returns the number after the largest number in present, which is in ascending order. first is the lowest
// number in the queue, or 0. Numbers after a large gap are ignored, because correct programs never leave such gaps.
// Otherwise a single file with the highest possible number would block the queue for all users.
func nextNumber(first int64, present []int64) int64 {
	last := first
	if first > maxFirstTicket {
		last = 0
	}
	for _, n := range present {
		if n > last && n-last <= maxTicketGap {
			last = n
		}
	}
	return last + 1
}
