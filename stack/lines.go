package stack

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// A Location is a position in the source of a program. Unknown parts are empty or 0.
type Location struct {
	Function string
	File     string // without folders
	Line     int
	Library  bool // File belongs to a compiler or a library of the system, such as a header of the C++ standard library
}

// Symbolize returns the locations of addresses of the file. The first location of an address is in the innermost
// function. If the compiler has inlined that function into others, locations in these functions follow, from inner to
// outer. An address about which nothing is known is missing from the result. After the deadline, Symbolize finds only
// names of functions and no lines.
func (m *Image) Symbolize(addresses []uint64, deadline time.Time) map[uint64][]Location {
	all := make(map[uint64][]Location)
	for address, name := range m.names(addresses, deadline) {
		all[address] = []Location{{Function: Demangle(name)}}
	}
	for _, address := range addresses {
		if _, named := all[address]; named {
			continue
		}
		if f := m.findFDE(address); f != nil { // stripped: the start of the function identifies it
			all[address] = []Location{{Function: fmt.Sprintf("0x%x", f.begin)}}
		}
	}
	if time.Now().Before(deadline) {
		m.addLines(addresses, all, deadline)
	}
	return all
}

var errTooLarge = errors.New("the program has too much debug information")

// addLines adds files, lines and inlined functions to the locations in the map all. It changes nothing for
// addresses about which the file has no DWARF information.
func (m *Image) addLines(addresses []uint64, all map[uint64][]Location, deadline time.Time) (err error) {
	defer recoverAs(&err)
	sections, err := m.debugSections()
	if err != nil || len(sections["info"]) == 0 {
		return err
	}
	if !plausibleUnits(sections["info"], sections["abbrev"]) {
		return errTooLarge
	}
	data, err := dwarf.New(sections["abbrev"], nil, nil, sections["info"], sections["line"], nil, sections["ranges"], sections["str"])
	if err != nil {
		return err
	}
	for _, name := range []string{"addr", "line_str", "str_offsets", "rnglists"} {
		if err := data.AddSection(".debug_"+name, sections[name]); err != nil {
			return err
		}
	}
	l := lineFinder{data: data, line: sections["line"], deadline: deadline}
	units, err := l.unitsOf(addresses)
	if err != nil {
		return err
	}
	for _, u := range units {
		if time.Now().After(deadline) {
			return errNoTime
		}
		for address, found := range l.locate(u) {
			outer := &found[len(found)-1]
			if known := all[address]; len(known) > 0 {
				outer.Function = known[len(known)-1].Function // the name of the symbol, which has the namespace
			}
			all[address] = found
		}
	}
	return nil
}

var errNoTime = errors.New("no time")

// A lineFinder finds the source lines of addresses, in the DWARF data of one file.
type lineFinder struct {
	data     *dwarf.Data
	line     []byte // .debug_line
	deadline time.Time
}

// A unit is a compile unit, with the addresses in it for which lines are requested.
type unit struct {
	entry     *dwarf.Entry
	addresses []uint64
}

// maxEntries is the maximum number of debugging entries, and of lines, that are read from one compile unit.
const maxEntries = 1 << 21

// unitsOf returns the compile units that contain the addresses. It ignores an address that is in no compile unit.
func (l *lineFinder) unitsOf(addresses []uint64) (units []*unit, err error) {
	byOffset := make(map[dwarf.Offset]*unit)
	for _, address := range addresses {
		if time.Now().After(l.deadline) {
			return nil, errNoTime
		}
		entry, err := l.data.Reader().SeekPC(address)
		if err != nil {
			continue
		}
		u := byOffset[entry.Offset]
		if u == nil {
			u = &unit{entry: entry}
			byOffset[entry.Offset] = u
			units = append(units, u)
		}
		u.addresses = append(u.addresses, address)
	}
	return units, nil
}

// locate returns the locations of each address of a compile unit. The innermost function comes first, followed
// by the functions into which it was inlined.
func (l *lineFinder) locate(u *unit) map[uint64][]Location {
	if at, ok := u.entry.Val(dwarf.AttrStmtList).(int64); !ok || !plausibleLines(l.line, at) {
		return nil
	}
	lines, err := l.data.LineReader(u.entry)
	if err != nil || lines == nil {
		return nil
	}
	all := make(map[uint64][]Location)
	for address, place := range l.linesOf(lines, u.addresses) {
		all[address] = l.withInlined(u.entry, lines.Files(), address, place)
	}
	return all
}

// linesOf returns the file and line of each address. It does not use LineReader.SeekPC, which does not find an address
// in a sequence of lines if an earlier sequence has higher addresses.
func (l *lineFinder) linesOf(lines *dwarf.LineReader, addresses []uint64) map[uint64]Location {
	found := make(map[uint64]Location)
	var before, e dwarf.LineEntry
	before.EndSequence = true
	for n := 0; n < maxEntries && lines.Next(&e) == nil; n++ {
		if n%4096 == 4095 && time.Now().After(l.deadline) {
			break
		}
		if !before.EndSequence && before.Address < e.Address {
			for _, address := range addresses {
				if before.Address <= address && address < e.Address && before.Line > 0 && before.Line < 1<<31 {
					place := Location{Line: before.Line}
					if before.File != nil {
						place.setFile(before.File.Name)
					}
					found[address] = place
				}
			}
		}
		before = e
	}
	return found
}

// withInlined returns the locations of an address, innermost first. place is the file and line of the address. Each
// location except the last contains the name of the inlined function in which it is. The last location is in the
// function that was not inlined. The caller adds the name of that function.
func (l *lineFinder) withInlined(entry *dwarf.Entry, files []*dwarf.LineFile, address uint64, place Location) (all []Location) {
	r := l.data.Reader()
	r.Seek(entry.Offset)
	if _, err := r.Next(); err != nil {
		return []Location{place}
	}
	for _, e := range slices.Backward(l.inlinedAt(r, address)) {
		place.Function = l.nameOf(e, 0)
		all = append(all, place)
		place = Location{}
		if i, ok := e.Val(dwarf.AttrCallFile).(int64); ok && i >= 0 && int(i) < len(files) && files[i] != nil {
			place.setFile(files[i].Name)
		}
		if line, ok := e.Val(dwarf.AttrCallLine).(int64); ok && line > 0 && line < 1<<31 {
			place.Line = int(line)
		}
	}
	return append(all, place)
}

// inlinedAt returns the entries of the inlined functions that contain an address, outermost first. r must be
// positioned after the entry of the compile unit.
func (l *lineFinder) inlinedAt(r *dwarf.Reader, address uint64) (inlined []*dwarf.Entry) {
	for n := 0; n < maxEntries; n++ {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == dwarf.TagCompileUnit || n%1024 == 0 && time.Now().After(l.deadline) {
			return inlined
		}
		switch e.Tag {
		case dwarf.TagSubprogram, dwarf.TagInlinedSubroutine, dwarf.TagLexDwarfBlock, dwarf.TagNamespace, dwarf.TagModule:
		default:
			if e.Children && e.Tag != 0 {
				r.SkipChildren()
			}
			continue
		}
		if e.Tag == dwarf.TagNamespace || e.Tag == dwarf.TagModule {
			continue // functions may be declared in it
		}
		if !l.covers(e, address) {
			r.SkipChildren()
			continue
		}
		if e.Tag == dwarf.TagInlinedSubroutine {
			if inlined = append(inlined, e); len(inlined) == 64 {
				return inlined
			}
		}
	}
	return inlined
}

func (l *lineFinder) covers(e *dwarf.Entry, address uint64) bool {
	ranges, err := l.data.Ranges(e)
	return err == nil && slices.ContainsFunc(ranges, func(r [2]uint64) bool { return address >= r[0] && address < r[1] })
}

// nameOf returns the name of a function. If the entry has no name, it follows references to the function's
// declaration, up to a limit. depth is the number of references that were already followed.
func (l *lineFinder) nameOf(e *dwarf.Entry, depth int) string {
	for _, attribute := range []dwarf.Attr{dwarf.AttrLinkageName, dwarf.AttrName} {
		if name, ok := e.Val(attribute).(string); ok && len(name) <= maxNameBytes {
			return Demangle(name)
		}
	}
	for _, attribute := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		at, ok := e.Val(attribute).(dwarf.Offset)
		if !ok || depth == 4 {
			continue
		}
		r := l.data.Reader()
		r.Seek(at)
		if other, err := r.Next(); err == nil && other != nil {
			return l.nameOf(other, depth+1)
		}
	}
	return ""
}

// setFile sets the fields that describe the source file. file is the path of that file.
func (p *Location) setFile(file string) {
	if len(file) <= maxNameBytes {
		p.File, p.Library = path.Base(file), isLibraryFile(file)
	}
}

// isLibraryFile reports whether a source file belongs to a compiler or a library of the system, and not to the program
// of the user. It looks only at the folders in the path, such as /usr/include/c++/12.
func isLibraryFile(file string) bool {
	file = path.Clean(file) // Clang: /usr/lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/vector
	for _, folder := range []string{"/usr/include/", "/usr/lib/", "/usr/lib32/", "/usr/lib64/", "/usr/local/include/", "/rustc/"} {
		if strings.HasPrefix(file, folder) {
			return true
		}
	}
	for _, folder := range []string{"/include/c++/", "/lib/gcc/", "/lib64/gcc/", "/lib/clang/", "/libstdc++-v3/"} { // of a compiler in any folder
		if strings.Contains(file, folder) {
			return true
		}
	}
	return false
}
