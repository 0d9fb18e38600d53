// Package transcript reads and writes recorded conversations between ranks and their PMI servers. --pmi-trace writes
// such recordings, and tests read them.
package transcript

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Case is a conversation of all ranks of a job with their servers. A file such as
// testdata/pmi/*.pmi contains several cases in this notation:
//
//	# a comment
//	case 12 a put is visible after the barrier
//	job size=2 name=k0                      the job; these are the defaults, see Job
//	0< cmd=put kvsname=k0 key=x value=1     rank 0 sends a line
//	0> cmd=put_result rc=0                  rank 0 must receive a line
//	1<< cmd=barrier_in\ncmd=get_ma          rank 1 sends these bytes in one write
//	1<; cmd=kvs-fence;                      rank 1 sends a frame of PMI-2
//	1>; cmd=kvs-fence-response;rc=0;        rank 1 must receive a frame
//	1>> \x20\x20  28cmd=kvs-fence-resp...     rank 1 must receive these bytes
//	1> ∅                                    rank 1 receives nothing yet
//	2:0< cmd=get_maxes                      rank 0 of the second spawned group sends
//
// Bytes are written in the notation of Escape. <hex,58> and <path,31> stand for 58 and 31 bytes, which are always the
// same. A line may contain one of these events instead of bytes:
//
//	0< EOF          the rank closes its connection
//	0< EXIT         the rank's process ends; a descendant may hold the connection
//	0< STARTED      the oldest open spawn request succeeds
//	0< STARTED 0,1  the same, with a code for each process
//	0< FAILED why   the oldest open spawn request fails
//
// The server must report these events:
//
//	0> CLOSED       the connection of the rank ended normally
//	0> LOST         the connection ended between init and finalize
//	0> DIE          the rank violated the protocol
//	0> KILL(9) why  the rank ends the job, with exit status 9 and this message
//	0> STUCK        the rank waits in a barrier that can never complete
//	0> SPAWN -n 2 x the rank asks to spawn this
//	0> REFUSED      the connection belonged to no rank
//
// The server reads a sent line and replies to it completely before the expected lines are compared. A
// case must list all lines that ranks receive.
type Case struct {
	Title string
	Line  int // in the file, from 1
	Job   Job
	Steps []Step
}

// A Job is the configuration of the job in a test case.
type Job struct {
	Size          int    // size=2
	Name          string // name=k0
	Nodes         []int  // nodes=abab: the node of every rank; default: all on one
	Apps          []int  // apps=0,0,1: the app context of every rank
	Universe      int    // universe=8
	Hosts         []string
	Mapping       string // mapping=(vector,...)
	IDs           []int  // ids=5,7: the ranks connect to a Listener, with these PMI_IDs
	Conns         int    // conns=3: number of connections, if not all belong to ranks
	Spawned       []int  // spawns=ab: the nodes of spawned ranks, repeated as needed
	Singleton     bool   // single: the rank was started without a server
	Uninitialized bool   // fresh: the ranks have not sent init yet; by default they have
	PMI2          bool   // two: the ranks have sent the init of PMI-2
}

// A Step is one line of a test case: a message or an event.
type Step struct {
	Line int // in the file, from 1
	// Group is 0 for the first group, else the number of a spawned one. Rank is the rank in the group.
	// If the ranks connect to a Listener, it is the number of a connection.
	Group, Rank int

	FromRank bool   // the rank sends the bytes; else it must receive them
	Word     string // EOF, KILL ...; if empty, Bytes count
	Code     int    // the exit status of KILL
	// Bytes are the bytes of the line. They include the final "\n" or the length prefix, unless the
	// line is raw. If Word is set, they are the text after it.
	Bytes []byte
}

// rankWords are the events of ranks. serverWords are the events that the server must report.
var (
	rankWords     = []string{"EOF", "EXIT", "STARTED", "FAILED"}
	serverWords   = []string{"∅", "CLOSED", "LOST", "DIE", "KILL", "STUCK", "SPAWN", "REFUSED"}
	wordsWithText = []string{"KILL", "SPAWN", "STARTED", "FAILED"} // may be followed by a text
)

// ReadCases reads a file of cases. It returns an error if the file contains anything unknown. name is the
// file's name for error messages.
func ReadCases(name string, r io.Reader) ([]Case, error) {
	var cases []Case
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		title, opens := strings.CutPrefix(line, "case ")
		switch {
		case opens:
			cases = append(cases, Case{Title: title, Line: n, Job: Job{Size: 2, Name: "k0"}})
		case len(cases) == 0:
			return nil, fmt.Errorf("%s:%d: the line %q is before the first case", name, n, line)
		default:
			if err := cases[len(cases)-1].addLine(n, line); err != nil {
				return nil, fmt.Errorf("%s:%d: %w: %q", name, n, err, line)
			}
		}
	}
	return cases, lines.Err()
}

// addLine parses a line of a case. The line must not be the first one of the case.
func (c *Case) addLine(n int, line string) error {
	if fields, ok := strings.CutPrefix(line, "job "); ok {
		if len(c.Steps) > 0 {
			return fmt.Errorf("too late")
		}
		return c.Job.parse(fields)
	}
	end := strings.IndexAny(line, "<>")
	if end < 0 {
		return fmt.Errorf("the line describes neither a job nor a step of a test")
	}
	step := Step{Line: n, FromRank: line[end] == '<'}
	if err := step.parseRank(line[:end], &c.Job); err != nil {
		return err
	}
	form, text, _ := strings.Cut(line[end+1:], " ")
	if form != "" && form != ";" && form != line[end:end+1] || text == "" {
		return fmt.Errorf("not a step")
	}
	if form == "" {
		if known, err := step.parseWord(text); known || err != nil {
			c.Steps = append(c.Steps, step)
			return err
		}
	}
	var err error
	step.Bytes, err = unescape(text)
	switch form {
	case "":
		step.Bytes = append(step.Bytes, '\n')
	case ";":
		step.Bytes = fmt.Appendf(nil, "%6d%s", len(step.Bytes), step.Bytes)
	}
	c.Steps = append(c.Steps, step)
	return err
}

// parseRank parses a rank in the form RANK or GROUP:RANK.
func (s *Step) parseRank(text string, j *Job) (err error) {
	group, rank, spawned := strings.Cut(text, ":")
	if !spawned {
		rank = text
	} else if s.Group, err = strconv.Atoi(group); err != nil || s.Group < 1 || j.Spawned == nil {
		return fmt.Errorf("not a group")
	}
	s.Rank, err = strconv.Atoi(rank)
	if err != nil || s.Rank < 0 || !spawned && s.Rank >= max(j.Size, j.Conns) {
		return fmt.Errorf("not a rank")
	}
	return nil
}

// parseWord parses a step that consists of an event. It returns false if text is not an event.
func (s *Step) parseWord(text string) (bool, error) {
	word, rest, _ := strings.Cut(text, " ")
	word, code, hasCode := strings.Cut(word, "(")
	words := serverWords
	if s.FromRank {
		words = rankWords
	}
	if !slices.Contains(words, word) {
		if word != "" && word[0] >= 'A' && word[0] <= 'Z' {
			return false, fmt.Errorf("unknown word")
		}
		return false, nil
	}
	s.Word, s.Bytes = word, []byte(rest)
	if (word == "KILL") != hasCode || !slices.Contains(wordsWithText, word) && rest != "" {
		return true, fmt.Errorf("the arguments of this word are not valid")
	}
	if !hasCode {
		return true, nil
	}
	var err error
	s.Code, err = strconv.Atoi(strings.TrimSuffix(code, ")"))
	return true, err
}

// parse parses the fields of a line that describes the job.
func (j *Job) parse(fields string) (err error) {
	for f := range strings.SplitSeq(fields, " ") {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "size":
			j.Size, err = strconv.Atoi(value)
		case "name":
			j.Name = value
		case "nodes":
			j.Nodes = parseNodes(value)
		case "spawns":
			j.Spawned = parseNodes(value)
		case "apps":
			j.Apps, err = parseNumbers(value)
		case "ids":
			j.IDs, err = parseNumbers(value)
		case "conns":
			j.Conns, err = strconv.Atoi(value)
		case "single":
			j.Singleton = true
		case "universe":
			j.Universe, err = strconv.Atoi(value)
		case "hosts":
			j.Hosts = strings.Split(value, ",")
		case "mapping":
			j.Mapping = value
		case "fresh":
			j.Uninitialized = true
		case "two":
			j.PMI2 = true
		default:
			return fmt.Errorf("unknown field %q", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parseNodes parses the nodes of ranks, which are given as one letter for each rank: "aab" stands for nodes
// 0, 0 and 1.
func parseNodes(text string) (list []int) {
	for _, letter := range text {
		list = append(list, int(letter-'a'))
	}
	return list
}

func parseNumbers(text string) (list []int, err error) {
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// unescape converts the notation of Escape to bytes, and replaces placeholders.
func unescape(text string) ([]byte, error) {
	text = regexp.MustCompile(`<(hex|path),([0-9]+)>`).ReplaceAllStringFunc(text, fillPlaceholder)
	var out []byte
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out = append(out, text[i])
			continue
		}
		i++
		switch {
		case strings.HasPrefix(text[i:], `\`):
			out = append(out, '\\')
		case strings.HasPrefix(text[i:], "n"):
			out = append(out, '\n')
		case strings.HasPrefix(text[i:], "0"):
			out = append(out, 0)
		case strings.HasPrefix(text[i:], "x") && len(text) >= i+3:
			c, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				return nil, err
			}
			out = append(out, byte(c))
			i += 2
		default:
			return nil, fmt.Errorf("unknown escape")
		}
	}
	return out, nil
}

// fillPlaceholder returns the bytes that a placeholder stands for.
func fillPlaceholder(placeholder string) string {
	kind, count, _ := strings.Cut(strings.Trim(placeholder, "<>"), ",")
	n, err := strconv.Atoi(count)
	if err != nil {
		return placeholder
	}
	unit := "0123456789abcdef"
	if kind == "path" {
		unit = "/scratch/node"
	}
	return strings.Repeat(unit, n/len(unit)+1)[:n]
}
