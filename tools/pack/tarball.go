package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"strings"
	"time"
)

// tarball returns a .tar.gz archive with the files of a tree and their directories. All files are owned by root. at is
// their modification time. The result does not depend on this machine.
func tarball(t tree, at time.Time) []byte {
	var b bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // its header has no time and no name
	w := tar.NewWriter(zip)
	made := map[string]bool{".": true}
	for _, name := range names(t) {
		folders(w, made, above(name), at)
		f := t[name]
		if f.folder {
			folders(w, made, name, at)
			continue
		}
		h := &tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: name, Mode: f.mode, Size: int64(len(f.data)),
			ModTime: at, Uname: "root", Gname: "root"}
		if f.link != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.link, 0
		}
		must(w.WriteHeader(h))
		_, err := w.Write(f.data)
		must(err)
	}
	must(w.Close())
	must(zip.Close())
	return b.Bytes()
}

// folders writes entries for a directory and its parents to the archive. written contains the directories that are
// already in the archive.
func folders(w *tar.Writer, written map[string]bool, dir string, at time.Time) {
	if written[dir] {
		return
	}
	folders(w, written, above(dir), at)
	written[dir] = true
	must(w.WriteHeader(&tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755,
		ModTime: at, Uname: "root", Gname: "root"}))
}

// above returns the part of a name before the last slash, or "." if the name has no slash. Unlike path.Dir, it does
// not clean the result.
func above(name string) string {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "."
	}
	return name[:i]
}

// gzipped compresses a manual page as Debian requires, in the same way as gzip -9n.
func gzipped(data []byte) []byte {
	var b bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, err := zip.Write(data)
	must(err)
	must(zip.Close())
	return b.Bytes()
}

// must panics if err is not nil. It is for errors that only a bug of this program can cause, such as a name that is
// too long for an archive.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
