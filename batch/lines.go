package batch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// These constants limit the size in bytes of a host file and of one line in a host file.
const (
	maxFile = 16 << 20
	maxLine = 4 << 20
)

// These are the names of the host-file formats that --rm-file accepts.
const (
	FormNodes  = "nodes"  // a host on each line, for each of its tasks
	FormCounts = "counts" // a host and how many tasks it has
	FormPE     = "pe"     // Grid Engine's, see gridengine.go
)

// A list collects hosts in the order in which they are first added. Adding a host again merges the new data into
// the host's entry.
type list struct {
	hosts []Host
	at    map[string]int // index in hosts, by key
	lists pieces         // more of the hosts' lists of CPUs
	gpus  pieces         // and of GPUs
}

// pieces collects, for each host, more pieces of its list of CPUs or GPUs. The key is the index of the host. The pieces
// are joined only once, at the end, so that a long file takes only linear time and memory.
type pieces map[int][]string

// add appends piece to the strings that were collected for host i, unless piece is empty.
func (p *pieces) add(i int, piece string) {
	if piece == "" {
		return
	}
	if *p == nil {
		*p = make(pieces)
	}
	(*p)[i] = append((*p)[i], piece)
}

// appendTo returns the list of host i: its first piece, then the pieces that were collected later, separated by commas.
func (p pieces) appendTo(first string, i int) string {
	if len(p[i]) == 0 {
		return first
	}
	more := strings.Join(p[i], ",")
	if first == "" {
		return more
	}
	return first + "," + more
}

// all returns the hosts of the list. Each host has its complete lists of CPUs and GPUs.
func (l *list) all() []Host {
	for i := range l.hosts {
		h := &l.hosts[i]
		h.List, h.GPUs = l.lists.appendTo(h.List, i), l.gpus.appendTo(h.GPUs, i)
	}
	l.lists, l.gpus = nil, nil
	return l.hosts
}

// key returns a host name in lower case, so that names can be compared as DNS compares them.
func key(name string) string { return strings.ToLower(name) }

// add adds a host to the list. If the list has a host with the same name, add merges the two.
func (l *list) add(h Host) error {
	if err := hostName(h.Name); err != nil {
		return err
	}
	if i, known := l.at[key(h.Name)]; known {
		mine := &l.hosts[i]
		mine.Tasks, mine.CPUs = mine.Tasks+h.Tasks, mine.CPUs+h.CPUs
		l.lists.add(i, h.List)
		l.gpus.add(i, h.GPUs)
		mine.PartialList = mine.PartialList || h.PartialList
		return nil
	}
	if len(l.hosts) == maxHosts {
		return errTooMany
	}
	if l.at == nil {
		l.at = make(map[string]int)
	}
	l.at[key(h.Name)] = len(l.hosts)
	l.hosts = append(l.hosts, h)
	return nil
}

// addTasks adds one task for each host name in words.
func (l *list) addTasks(words []string) error {
	for _, word := range words {
		if err := l.add(Host{Name: word, Tasks: 1}); err != nil {
			return err
		}
	}
	return nil
}

// errEmpty is returned for a file that names no hosts.
var errEmpty = errors.New("is empty")

// readLines reads a file and calls handle with the words of each line that is not empty. Lines end in LF or CRLF.
// readErr is not nil if the file cannot be read, is too large or is empty. parseErr is the first error that handle
// has returned, with the number of the line.
func (w Inputs) readLines(source, name string, handle func(number int, words []string) error) (readErr, parseErr error) {
	file, err := w.Open(name)
	if err != nil {
		return fmt.Errorf("%s: %w", source, openError(name, err)), nil
	}
	defer file.Close()
	text := bufio.NewScanner(io.LimitReader(file, maxFile+1))
	text.Buffer(nil, maxLine)
	bytes, empty := 0, true
	for number := 1; text.Scan(); number++ {
		bytes += len(text.Bytes()) + 1
		words := strings.FieldsFunc(text.Text(), func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' })
		if len(words) == 0 {
			continue
		}
		empty = false
		if err := handle(number, words); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", source, number, err)
		}
	}
	switch {
	case errors.Is(text.Err(), bufio.ErrTooLong):
		return fmt.Errorf("%s: %s has a line of more than %d MB", source, name, maxLine>>20), nil
	case bytes > maxFile:
		return fmt.Errorf("%s: %s is larger than %d MB", source, name, maxFile>>20), nil
	case text.Err() != nil:
		return fmt.Errorf("%s: %w", source, openError(name, text.Err())), nil
	case empty:
		return fmt.Errorf("%s: %s %w", source, name, errEmpty), nil
	}
	return nil, nil
}

// readFile reads a host list from the file that the environment variable names.
func (w Inputs) readFile(variable, form string) (l list, err error) {
	if !w.set(variable) {
		return l, newUnreadError(variable + " is not set")
	}
	missing, wrong := w.readLines(variable, w.value(variable), l.lineParser(form))
	return l, linesError(missing, wrong)
}

// linesError converts the two errors of Inputs.readLines to a single error. If readErr is not nil, it returns readErr
// as an unreadError. Otherwise it returns parseErr, which may be nil.
func linesError(readErr, parseErr error) error {
	if readErr != nil {
		return newUnreadError(readErr.Error())
	}
	return parseErr
}

// openError converts an error from opening a file to an error of the form "open NAME: why".
func openError(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s %s: %w", path.Op, name, path.Err)
	}
	return fmt.Errorf("open %s: %w", name, err)
}

// lineParser returns the function that parses a line of a host file. The argument form names the format of the file,
// such as "pe".
func (l *list) lineParser(form string) func(number int, words []string) error {
	switch form {
	case FormCounts:
		return l.countLineParser(true)
	case FormPE:
		return l.parsePELine
	}
	return l.parseNameLine
}

// parseNameLine parses a line that contains only a host name.
func (l *list) parseNameLine(number int, words []string) error {
	if len(words) > 1 {
		return fmt.Errorf("unexpected %s after the host name", quoted(words[1]))
	}
	return l.add(Host{Name: words[0], Tasks: 1, Line: number})
}

// countLineParser returns a function that parses a line with a host and its number of tasks. If required is false and
// the number is missing, the host gets 1 task.
func (l *list) countLineParser(required bool) func(number int, words []string) error {
	return func(number int, words []string) error {
		switch {
		case len(words) > 2:
			return fmt.Errorf("unexpected %s after the slot count", quoted(words[2]))
		case len(words) == 1 && required:
			return fmt.Errorf("the slot count of %s is missing", quoted(words[0]))
		case len(words) == 1:
			return l.parseNameLine(number, words)
		}
		n, err := slotCount(words[1])
		if err == nil && n == 0 {
			err = fmt.Errorf("%s is not a slot count", quoted(words[1]))
		}
		if err != nil {
			return err
		}
		return l.add(Host{Name: words[0], Tasks: n, Line: number})
	}
}
