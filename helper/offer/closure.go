package offer

import (
	"debug/elf"
	"errors"
	"io"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
)

// A closure is what the dynamic loader maps with a program, as it is being found (ld.so(8)).
type closure struct {
	files  Files
	search Search
	cache  func() libraryCache
	late   func() bool

	machine elf.Machine
	seen    map[string]bool // names
	opened  int
	found   Finding
	talkers []string // files of MPICH's family
}

// A mapped is an object of the closure.
type mapped struct {
	*object
	path  string
	by    *mapped // that needs it first; nil: the program
	level int     // of the program: 0
}

// errLate is the end of a search that is larger than it may be (PMIX-2).
var errLate = errors.New("more to look at than one program may have")

// find looks at a program. The search ends when late says so.
func find(files Files, f File, program string, search Search, late func() bool) Finding {
	o, err := readObject(f)
	if err != nil {
		return Finding{Kind: kindOf(f)}
	}
	if !o.dynamic() {
		return static(o, f, late)
	}
	c := &closure{files: files, search: search, late: late, machine: o.machine, seen: make(map[string]bool),
		cache: sync.OnceValue(func() libraryCache { return readCache(files) })}
	c.found.Kind = Dynamic
	if err := c.walk(&mapped{object: o, path: program}); err != nil {
		return Finding{Kind: Unresolved}
	}
	return c.found
}

// kindOf judges a file that is no ELF file of 64 bits.
func kindOf(f io.ReaderAt) Kind {
	var head [2]byte
	n, err := f.ReadAt(head[:], 0)
	switch {
	case n == 2 && string(head[:]) == "#!":
		return Script
	case err != nil && err != io.EOF:
		return Unreadable
	}
	return Other
}

// static looks into a program that is all there is.
func static(o *object, f io.ReaderAt, late func() bool) Finding {
	knows, err := o.contains(f, late, "PMIX_NAMESPACE", "PMI_FD")
	if err != nil {
		return Finding{Kind: Unresolved}
	}
	return Finding{Kind: Static, Namespace: knows[0], Socket: knows[1]}
}

// walk goes through the closure, level by level.
func (c *closure) walk(program *mapped) error {
	queue := []*mapped{program}
	preload := strings.FieldsFunc(c.search.Preload, func(r rune) bool { return r == ' ' || r == ':' })
	for at := 0; at < len(queue); at++ {
		m := queue[at]
		names := m.needed
		if m == program {
			c.found.Direct = slices.ContainsFunc(names, func(name string) bool { return familyOf(name, nil) == pmix })
			names = append(preload, names...)
		}
		for _, name := range names {
			if c.seen[name] || slices.Contains(runtimes, name) {
				continue
			}
			c.seen[name] = true
			next, err := c.need(name, m)
			if err != nil {
				return err
			}
			if next != nil {
				queue = append(queue, next)
			}
		}
	}
	return c.listen()
}

// need takes in a library; nil: it is not found.
func (c *closure) need(name string, by *mapped) (*mapped, error) {
	m, err := c.locate(name, by)
	if err != nil {
		return nil, err
	}
	if m != nil && m.level > mostLevels {
		return nil, errLate
	}
	c.note(path.Base(name), m)
	return m, nil
}

// note takes down whose library it is.
func (c *closure) note(name string, m *mapped) {
	var o *object
	if m != nil {
		o = m.object
	}
	c.found.UCX = c.found.UCX || strings.HasPrefix(name, "libucp.so.")
	var first **Library
	switch familyOf(name, o) {
	case openMPI:
		first = &c.found.OpenMPI
	case mpich:
		if first = &c.found.MPICH; m != nil {
			c.talkers = append(c.talkers, m.path)
		}
	case pmix:
		first = &c.found.PMIx
	default:
		return
	}
	if *first == nil || (*first).Path == "" && m != nil {
		*first = &Library{Name: name}
		if m != nil {
			(*first).Path = c.files.Resolve(m.path)
		}
	}
}

// listen finds out whether MPICH speaks PMI although PMIx is there, too.
func (c *closure) listen() error {
	if c.found.MPICH == nil || c.found.PMIx == nil {
		return nil
	}
	for _, talker := range c.talkers {
		f, err := c.files.Open(talker)
		if err != nil {
			continue
		}
		defer f.Close()
		o, err := readObject(f)
		if err != nil {
			continue
		}
		knows, err := o.contains(f, c.late, "PMI_FD")
		if err != nil {
			return err
		}
		c.found.PMIWithin = c.found.PMIWithin || knows[0]
	}
	return nil
}

// locate finds the file of a library, of which what by says has a part.
func (c *closure) locate(name string, by *mapped) (*mapped, error) {
	for file := range c.candidates(name, by) {
		if c.late() {
			return nil, errLate
		}
		o, err := c.open(file)
		if err != nil {
			return nil, err
		}
		if o != nil {
			return &mapped{o, file, by, by.level + 1}, nil
		}
	}
	return nil, nil
}

// open reads an object that the loader would take; nil: it would go on.
func (c *closure) open(file string) (*object, error) {
	f, err := c.files.Open(file)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	if c.opened++; c.opened > mostFiles {
		return nil, errLate
	}
	o, err := readObject(f)
	if err != nil || o.machine != c.machine {
		return nil, nil
	}
	return o, nil
}

// candidates are the paths at which the loader looks for a library, in its order (PMIX-3).
func (c *closure) candidates(name string, by *mapped) iter.Seq[string] {
	return func(yield func(string) bool) {
		if strings.Contains(name, "/") {
			each(c.expand(name, by), yield)
			return
		}
		in := func(folders string, of *mapped) bool {
			for folder := range strings.SplitSeq(folders, ":") {
				for _, dir := range c.expand(folder, of) {
					if !yield(path.Join(dir, name)) {
						return false
					}
				}
			}
			return true
		}
		for m := by; m != nil && by.runpath == ""; m = m.by {
			if m.rpath != "" && m.runpath == "" && !in(m.rpath, m) {
				return
			}
		}
		if c.search.LibraryPath != "" && !in(strings.ReplaceAll(c.search.LibraryPath, ";", ":"), by.program()) {
			return
		}
		if by.runpath != "" && !in(by.runpath, by) || by.ownPathsOnly || !each(c.cache()[name], yield) {
			return
		}
		in("/$LIB:/usr/$LIB", by)
	}
}

// each yields all of a list, unless it is told to stop.
func each(list []string, yield func(string) bool) bool {
	for _, s := range list {
		if !yield(s) {
			return false
		}
	}
	return true
}

// program is where a chain of needs begins.
func (m *mapped) program() *mapped {
	for m.by != nil {
		m = m.by
	}
	return m
}

// expand makes paths of one that an object, or for the program the environment, has.
func (c *closure) expand(of string, m *mapped) []string {
	origin := ""
	if strings.Contains(of, "ORIGIN") {
		file := m.path
		if m.by == nil {
			file = c.files.Resolve(file)
		}
		origin = path.Dir(file)
	}
	files := expand(of, origin, m.machine)
	for i, file := range files {
		if !path.IsAbs(file) { // empty, too: it is where the rank starts
			files[i] = path.Join(c.search.Dir, file)
		}
	}
	return files
}
