/*
Package hostlist reads host lists and host files, and folds host names for messages.

One grammar (doc/spec: cli.md 4.1) accepts the host files of a dozen launchers:

	donner:2 binding=core user=foo          MPICH Hydra
	alice@node1 slots=4 max_slots=8         Open MPI
	node[01-16],gpu[1-2,7]                  Slurm, Intel
	node1 4 all.q@node1 UNDEFINED           Grid Engine
	node[1-3] node7 login1                  clush
	!include other.hosts

Each line has one of the formats in line_formats.go. All lines are converted to entries, one for each occurrence of
a host:

	text --Parse, ReadFile--> []Entry --Join--> []Entry, one for each host
	                                    Filter (HOST-9) selects among them
	names --Fold--> node[03-17] --Expand--> names

The package does not resolve names, does not interpret slots, and opens no file itself. It treats two names of
one machine as two hosts; the helpers detect that they are one machine.
*/
package hostlist

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// These constants limit the input. They bound the memory that a typing error or a hostile file can make mpiexec
// allocate. maxEntry is the limit of rule HOST-1.
const (
	maxEntry    = 65536    // names in one entry
	maxNames    = 1 << 20  // names in a list or file, with all its includes
	maxFile     = 64 << 20 // bytes of one file
	maxDepth    = 16       // depth of includes
	maxIncludes = 1000     // included files in all
	maxSlots    = 65535    // slots of one entry
	maxErrors   = 10       // errors shown (CLI-10)
)

// An Entry is one occurrence of one host in a host list or host file.
type Entry struct {
	Host     string // name or address to connect to, as written
	Slots    int    // 0 if not given
	MaxSlots int    // hard limit; 0 if not given
	User     string // "" if not given
	Address  string // where to connect instead of Host; other helpers use it too
	Port     int    // 0 if not given
	Alias    string // makes the entry a node of its own (HOST-8)
	Exclude  bool   // "^host": the host is not to be used

	// Attrs holds the given attributes binding, iface, type and path under these names; nil if there are
	// none. Their values are checked by the caller's AttrCheck. Env holds "NAME=VALUE", in order.
	Attrs map[string]string
	Env   []string

	File      string // where it was written; "-host" for a list
	Line, Col int    // from 1, in characters; Line is 0 for a list

	text  string // the source line, for errors of Join
	width int    // characters of the entry in text
}

// An AttrCheck returns an error if the value of an attribute is invalid.
type AttrCheck func(key, value string) error

// Label returns the alias of the host, or the host's name if it has no alias.
func (e Entry) Label() string {
	if e.Alias != "" {
		return e.Alias
	}
	return e.Host
}

// Parse parses a list of hosts separated by commas, such as the argument of -host. Errors are SyntaxErrors, which name
// origin as the file and give a position in expr. A list without a host is an error.
func Parse(origin, expr string) ([]Entry, error) {
	return parse(cursor{sourceLine: sourceLine{file: origin, text: expr}, isList: true}, maxNames)
}

func parse(c cursor, limit int) ([]Entry, error) {
	p := &parser{maxNames: limit}
	p.parseHosts(c)
	if len(p.entries) == 0 && p.isEmpty() {
		p.addError(errors.New(c.file + ": the list contains no host"))
	}
	return p.result()
}

// ReadFile reads a host file and the files that it includes, each opened by open. The name of an included file is
// relative to the including file. ReadFile returns the errors of all files together, at most ten (rule HOST-12). A
// file without hosts is an error (rule HOST-7). If check is not nil, ReadFile calls it for each attribute that it
// stores in Attrs.
func ReadFile(name string, open func(name string) (io.ReadCloser, error), check AttrCheck) ([]Entry, error) {
	p := &parser{open: open, checkAttr: check, formats: lineFormats(), maxNames: maxNames}
	text, err := p.readFile(name)
	if err != nil {
		return nil, errors.New("host file " + name + ": " + openReason(err))
	}
	p.parseFile(name, text, []string{filepath.Clean(name)})
	if p.isEmpty() && !hasHost(p.entries) {
		p.addError(errors.New("the host file contains no hosts: " + name))
	}
	return p.result()
}

// Expand expands a bracket expression, or a list of such expressions, to a list of host names. Examples are
// "node[01-03],gpu1" and the value of SLURM_JOB_NODELIST. Slots, users and exclusions are errors.
func Expand(expr string) ([]string, error) { return ExpandUpTo(maxNames, expr) }

// ExpandUpTo is like Expand, but returns an error if expr expands to more than limit names. It is used for text from
// other programs, since a few bytes may expand to a million names.
func ExpandUpTo(limit int, expr string) ([]string, error) {
	entries, err := parse(cursor{sourceLine: sourceLine{file: "host list", text: expr}, isList: true}, limit)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		if e.Slots != 0 || e.User != "" || e.Exclude {
			return nil, e.errorAt("only host names are allowed here")
		}
		names[i] = e.Host
	}
	return names, nil
}

// A parser collects the entries and errors of a host list, or of a host file and all files that it includes.
type parser struct {
	errorList
	entries   []Entry
	open      func(string) (io.ReadCloser, error)
	checkAttr AttrCheck
	formats   []lineFormat
	includes  int
	names     int // counted before they are stored, since one line may name too many
	maxNames  int // limit of names
}

func (p *parser) result() ([]Entry, error) {
	if err := p.asError(); err != nil {
		return nil, err
	}
	return p.entries, nil
}

// parseFile parses the lines of a file. chain is a list in which each file includes the next one. The last file in
// chain is this file.
func (p *parser) parseFile(name, text string, chain []string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		p.parseLine(cursor{sourceLine: sourceLine{file: name, line: number, text: line}, chain: chain})
	}
}

// parseInclude reads the file that an include directive names. A relative name is relative to the directory of the
// including file.
func (p *parser) parseInclude(c cursor, end int, name string) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(c.file), name)
	}
	name = filepath.Clean(name)
	for i, including := range c.chain {
		if including == name {
			loop := strings.Join(append(c.chain[i:len(c.chain):len(c.chain)], name), " -> ")
			p.addError(c.errorAt(c.pos, end, "the files include one another: %s", quoteUnprintable(loop)))
			return
		}
	}
	p.includes++
	if len(c.chain) > maxDepth || p.includes > maxIncludes {
		p.addError(c.errorAt(c.pos, end, "too many files are included; at most %d are allowed, and at most %d inside one another", maxIncludes, maxDepth))
		return
	}
	text, err := p.readFile(name)
	if err != nil {
		p.addError(c.errorAt(c.pos, end, "cannot include %s: %s", quoteUnprintable(name), openReason(err)))
		return
	}
	p.parseFile(name, text, append(c.chain[:len(c.chain):len(c.chain)], name))
}

// readFile returns the contents of a file. It removes a byte order mark at the start.
func (p *parser) readFile(name string) (string, error) {
	f, err := p.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxFile:
		return "", errors.New("the file is too large for a host file")
	}
	text := string(data)
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return "", errors.New("the file is written in UTF-16; save it as UTF-8 or plain text")
	}
	return strings.TrimPrefix(text, "\ufeff"), nil
}

// openReason returns why a file could not be opened. It leaves out the file's name, which the caller's message
// already contains.
func openReason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return err.Error()
}

func hasHost(entries []Entry) bool {
	for _, e := range entries {
		if !e.Exclude {
			return true
		}
	}
	return false
}
