package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"remshell/stack"
)

// maxMappings is the maximum number of executable mappings of a process that Mappings returns.
const maxMappings = 4096

// Images holds the open ELF files of processes. It opens each file only once. The zero value is ready to use. Only one
// goroutine at a time may use it.
type Images struct {
	byFile map[fileID]*stack.Image // nil values: they cannot be read
	files  []*os.File
}

// A fileID identifies one version of a file.
type fileID struct {
	dev, ino uint64
	size     int64
	changed  unix.Timespec
}

// Close closes all files. Images that Mappings has returned must not be used afterwards.
func (s *Images) Close() {
	for _, f := range s.files {
		f.Close()
	}
	s.byFile, s.files = nil, nil
}

// Mappings returns the executable mappings of a process, sorted by address. Each mapping contains the image of the file
// that the process has mapped. If the file has been replaced since then, the mapping contains no image.
func (s *Images) Mappings(pid int) (all []stack.Mapping, err error) {
	err = readMaps(pid, func(m stack.Mapping, permissions string, ino uint64) (more bool) {
		if !strings.Contains(permissions, "x") {
			return true
		}
		switch {
		case m.Path == "[vdso]":
			if content := readMemory(pid, m.Start, int(min(m.End-m.Start, 64<<10))); content != nil {
				m.Image, _ = stack.OpenImage(bytes.NewReader(content))
			}
		case strings.HasPrefix(m.Path, "/"):
			m.Image = s.open(pid, m, ino)
		}
		all = append(all, m)
		return len(all) < maxMappings
	})
	return all, err
}

// SharedMappings returns the mappings that a process shares with others and may write to, at most limit of them. They
// contain no images.
func SharedMappings(pid, limit int) (all []stack.Mapping) {
	readMaps(pid, func(m stack.Mapping, permissions string, _ uint64) (more bool) {
		if isSharedAndWritable(permissions) {
			all = append(all, m)
		}
		return len(all) < limit
	})
	return all
}

// isSharedAndWritable reports whether a mapping with the given permissions is shared with other processes, and the
// process may write to it.
func isSharedAndWritable(permissions string) bool {
	return strings.HasPrefix(permissions, "rw") && strings.HasSuffix(permissions, "s")
}

// maxMapsBytes is the maximum number of bytes of /proc/PID/maps that are read. The kernel allows 65,530 mappings by
// default (vm.max_map_count), but an administrator may allow any number.
const maxMapsBytes = 16 << 20

// readMaps calls use for each mapping of a process, until use returns false.
func readMaps(pid int, use func(m stack.Mapping, permissions string, ino uint64) (more bool)) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	defer f.Close()
	return parseMaps(f, use)
}

// parseMaps calls use for each valid line of a text in the form of /proc/PID/maps, until use returns false. It reads at
// most maxMapsBytes. It ignores lines that are too long.
func parseMaps(r io.Reader, use func(m stack.Mapping, permissions string, ino uint64) (more bool)) error {
	lines := bufio.NewReaderSize(io.LimitReader(r, maxMapsBytes), 8<<10) // more than the longest path
	for {
		line, isPrefix, err := lines.ReadLine()
		whole := !isPrefix
		for isPrefix && err == nil {
			_, isPrefix, err = lines.ReadLine()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if m, permissions, ino, ok := parseMapping(string(line)); whole && ok && !use(m, permissions, ino) {
			return nil
		}
	}
}

// parseMapping parses a line of /proc/PID/maps. It returns false if the line is not valid.
//
//	7f2c5c026000-7f2c5c17b000 r-xp 00026000 fd:00 1443 /usr/lib/x86_64-linux-gnu/libc.so.6
func parseMapping(line string) (m stack.Mapping, permissions string, ino uint64, ok bool) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 {
		return m, "", 0, false
	}
	from, to, _ := strings.Cut(fields[0], "-")
	var errs [4]error
	m.Start, errs[0] = strconv.ParseUint(from, 16, 64)
	m.End, errs[1] = strconv.ParseUint(to, 16, 64)
	m.Offset, errs[2] = strconv.ParseUint(fields[2], 16, 64)
	ino, errs[3] = strconv.ParseUint(fields[4], 10, 64)
	if len(fields) > 5 {
		m.Path = strings.TrimLeft(fields[5], " ")
	}
	return m, fields[1], ino, errs == [4]error{} && m.Start < m.End
}

// open returns the image of a mapped file, or nil if the file cannot be opened. It opens the file in the mount
// namespace of the process.
func (s *Images) open(pid int, m stack.Mapping, ino uint64) *stack.Image {
	f := openMapped(pid, fmt.Sprintf("/proc/%d/root%s", pid, m.Path), m, ino)
	if f == nil {
		if f = openMapped(pid, fmt.Sprintf("/proc/%d/exe", pid), m, ino); f == nil {
			return nil
		}
	}
	var is unix.Stat_t
	if unix.Fstat(int(f.Fd()), &is) != nil {
		f.Close()
		return nil
	}
	id := fileID{is.Dev, is.Ino, is.Size, is.Mtim}
	if image, known := s.byFile[id]; known {
		f.Close()
		return image
	}
	if s.byFile == nil {
		s.byFile = make(map[fileID]*stack.Image)
	}
	image, err := stack.OpenImage(f)
	if err != nil || len(s.files) == 1000 {
		f.Close()
		image = nil
	} else {
		s.files = append(s.files, f)
	}
	s.byFile[id] = image
	return image
}

// openMapped opens a regular file if it is the file that the process has mapped, which has the inode number ino.
// Overlayfs may show a different inode number. In that case openMapped compares the code of the file with the mapping.
func openMapped(pid int, name string, m stack.Mapping, ino uint64) *os.File {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), name)
	var is unix.Stat_t
	if unix.Fstat(fd, &is) == nil && is.Mode&unix.S_IFMT == unix.S_IFREG && (is.Ino == ino || hasCode(f, pid, m)) {
		return f
	}
	f.Close()
	return nil
}

// hasCode reports whether a file contains the code of a mapping. It compares the first 4 KiB of the mapping with the
// file.
func hasCode(f *os.File, pid int, m stack.Mapping) bool {
	code := readMemory(pid, m.Start, int(min(m.End-m.Start, 4096)))
	content := make([]byte, len(code))
	n, _ := f.ReadAt(content, int64(m.Offset))
	return len(code) > 0 && bytes.Equal(code, content[:n])
}

// readBounded returns the content of a file in /proc, truncated to n bytes.
func readBounded(name string, n int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var buf bytes.Buffer
	_, err = buf.ReadFrom(io.LimitReader(f, n))
	return buf.Bytes(), err
}
