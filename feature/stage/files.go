package stage

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/job"
	"remshell/usererr"
)

// A fileSet contains the files that a job stages (sends to the nodes). The files stay open, so that mpiexec sends the
// files that it has checked, even if they are replaced meanwhile.
type fileSet struct {
	staged   []job.StagedFile
	contents []Content
	files    []*os.File
}

func (h *fileSet) closeAll() {
	for _, f := range h.files {
		f.Close()
	}
}

// hashAll computes the hashes of all files. It runs while mpiexec connects to the hosts.
func (h *fileSet) hashAll() {
	for _, c := range h.contents {
		c.Checksum()
	}
}

// openGiven opens the files that a command line stages, and adds them to the request. It returns the errors
// of all files, joined, and an error if a program among the files is not executable.
func (h *fileSet) openGiven(r *setup.Run) error {
	var faults []error
	path, _ := job.LookupEnv(r.Environ, "PATH")
	for _, name := range fileNames(r.Line, r.Dir, cmp.Or(path, job.DefaultPath)) {
		if err := h.addFile(name, r.Dir); err != nil {
			faults = append(faults, err)
		}
	}
	if len(h.staged) > job.MaxStagedFiles {
		faults = append(faults, &usererr.Error{Text: fmt.Sprintf("--stage: there are %d files, but at most %d are allowed", len(h.staged), job.MaxStagedFiles), Remedy: "pack the files into one file with tar"})
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	return h.attachTo(r.Request, r.Dir)
}

// fileNames returns the files named by --stage and its variants. It searches for programs in dir, the working
// directory, and in path, the value of PATH.
func fileNames(line option.Line, dir, path string) []string {
	given := option.ValuesOf[Options](line)
	names := given.Stage
	for _, list := range given.StageFiles {
		names = append(names, strings.Split(list, ",")...)
	}
	if given.StageProg {
		for _, s := range line.Apps {
			names = append(names, programFile(s, dir, path))
		}
	}
	return names
}

// programFile returns the file of an app context's program on this machine, or only the program's name if no
// such file is found.
func programFile(s option.AppContext, dir, path string) string {
	if strings.Contains(s.Program, "/") {
		return s.Program
	}
	for _, list := range []string{s.Path, path} {
		for _, searched := range filepath.SplitList(list) {
			file := filepath.Join(searched, s.Program)
			if !filepath.IsAbs(file) {
				file = filepath.Join(dir, file)
			}
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return file
			}
		}
	}
	return s.Program
}

// addFile opens a file and adds it, unless it was added before. It returns an error if the file is not a regular
// file. For a pipe, it does so without waiting for a writer.
func (h *fileSet) addFile(name, dir string) error {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	for _, p := range h.staged {
		if p.Path == path {
			return nil
		}
		if p.Name == filepath.Base(path) {
			return &usererr.Error{Text: fmt.Sprintf("--stage %s: %s has the same name, and both files would be copied to one folder", name, p.Path), Remedy: "rename one of the files"}
		}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("--stage %s: %w", name, withoutPath(err))
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &usererr.Error{Text: fmt.Sprintf("--stage %s: the file is a directory", name), Remedy: "give the files of the directory, or pack the directory with tar"}
	case !info.Mode().IsRegular():
		err = &usererr.Error{Text: fmt.Sprintf("--stage %s: the file is not a regular file", name)}
	}
	if err != nil {
		f.Close()
		return err
	}
	h.files = append(h.files, f)
	h.staged = append(h.staged, job.StagedFile{Name: filepath.Base(path), Path: path, Size: info.Size(), Mode: int(info.Mode().Perm())&0o700 | 0o400})
	h.contents = append(h.contents, hashedFile{f, sync.OnceValues(func() (string, error) { return hashFile(f, info.Size()) })})
	return nil
}

// withoutPath returns the cause of an fs.PathError without the path, for messages that name the file
// themselves.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// A hashedFile is an open file and its hash, computed once.
type hashedFile struct {
	*os.File
	hash func() (string, error)
}

func (c hashedFile) Checksum() (string, error) { return c.hash() }

// hashFile returns the SHA-256 of a file in hexadecimal. It returns an error if the file is not size bytes
// long.
func hashFile(f *os.File, size int64) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, size+1))
	switch {
	case err != nil:
		return "", withoutPath(err)
	case n != size:
		return "", fmt.Errorf("the file had %d bytes, but its size has changed; a program is writing to it", size)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// attachTo adds the files to a request. It returns an error if a program among the files is not executable.
func (h *fileSet) attachTo(req *job.Request, dir string) error {
	req.StagedFiles = h.staged
	for i := range req.Apps {
		app := &req.Apps[i]
		p, ok := job.FindStagedFile(app.Argv[0], h.staged, dir, app.Dir)
		if ok && !p.IsExecutable() {
			return &usererr.Error{Text: fmt.Sprintf("program %s: permission denied", p.Path),
				Remedy: "make the program executable: chmod +x " + option.ShellQuote(p.Path), Code: job.ExitCannotRun}
		}
		app.StagedFile = p.Name
	}
	return nil
}
