package cli

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
	"slices"
	"strings"
	"sync"
	"syscall"

	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/fault"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/reserve"
)

// A hold is the files that a job stages, opened: what is sent is what was looked at, also
// if another file takes the name.
type hold struct {
	parcels []job.Parcel
	cargo   []reserve.Cargo
	files   []*os.File
}

func (h *hold) close() {
	for _, f := range h.files {
		f.Close()
	}
}

// stowed opens the files that a line stages. All faults are told at once.
func stowed(line option.Line, here request.Localhost, path string) (*hold, error) {
	h := &hold{}
	var faults []error
	for _, name := range stagedFiles(line, here, path) {
		if err := h.add(name, here.Dir); err != nil {
			faults = append(faults, err)
		}
	}
	if len(h.parcels) > job.MaxParcels {
		faults = append(faults, &fault.Error{Text: fmt.Sprintf("--stage: %d files; at most %d", len(h.parcels), job.MaxParcels), Remedy: "pack them into one, with tar"})
	}
	if len(faults) > 0 {
		h.close()
		return nil, errors.Join(faults...)
	}
	return h, nil
}

// stagedFiles are the files that the options of a line name.
func stagedFiles(line option.Line, here request.Localhost, path string) []string {
	names := line.Job.Stage
	for _, list := range line.Job.StageFiles {
		names = append(names, strings.Split(list, ",")...)
	}
	if line.Job.StageProg {
		for _, s := range line.Sections {
			names = append(names, programFile(s, line.Job, here, path))
		}
	}
	return names
}

// programFile is where the program of a section is on this machine.
func programFile(s option.Section, j option.Job, here request.Localhost, path string) string {
	if strings.Contains(s.Program, "/") {
		return s.Program
	}
	for _, list := range []string{s.Path, path} {
		for _, dir := range filepath.SplitList(list) {
			file := filepath.Join(dir, s.Program)
			if !filepath.IsAbs(file) {
				file = filepath.Join(here.Dir, file)
			}
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return file
			}
		}
	}
	return s.Program
}

// add opens a file, unless it was named before. A pipe is not waited for.
func (h *hold) add(name, dir string) error {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	for _, p := range h.parcels {
		if p.Path == path {
			return nil
		}
		if p.Name == filepath.Base(path) {
			return &fault.Error{Text: fmt.Sprintf("--stage %s: %s has the same name, and both go to one folder", name, p.Path), Remedy: "rename one"}
		}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("--stage %s: %w", name, pathless(err))
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &fault.Error{Text: fmt.Sprintf("--stage %s: is a directory", name), Remedy: "name its files, or pack it with tar"}
	case !info.Mode().IsRegular():
		err = &fault.Error{Text: fmt.Sprintf("--stage %s: is no plain file", name)}
	}
	if err != nil {
		f.Close()
		return err
	}
	h.files = append(h.files, f)
	h.parcels = append(h.parcels, job.Parcel{Name: filepath.Base(path), Path: path, Size: info.Size(), Mode: int(info.Mode().Perm())&0o700 | 0o400})
	h.cargo = append(h.cargo, cargo{f, sync.OnceValues(func() (string, error) { return sum(f, info.Size()) })})
	return nil
}

// pathless is what the system says of a file that the message names.
func pathless(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// A cargo is an open file and its hash, which is made once.
type cargo struct {
	*os.File
	sum func() (string, error)
}

func (c cargo) Sum() (string, error) { return c.sum() }

// sum reads a file to its end, which must be where it was.
func sum(f *os.File, size int64) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, size+1))
	switch {
	case err != nil:
		return "", pathless(err)
	case n != size:
		return "", fmt.Errorf("it was %d bytes, and is not; somebody writes to it", size)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ship lets a request have the files. A program that is one of them must be executable.
func (h *hold) ship(req *job.Request, dir string) error {
	req.Parcels = h.parcels
	for i := range req.Apps {
		app := &req.Apps[i]
		p, ok := job.StagedAs(app.Argv[0], h.parcels, dir, app.Dir)
		if ok && !p.Runnable() {
			return &fault.Error{Text: fmt.Sprintf("program %s: permission denied", p.Path),
				Remedy: "make it executable: chmod +x " + option.Quote(p.Path), Code: job.ExitCannotRun}
		}
		app.Staged = p.Name
	}
	return nil
}

// shipping lets the request have the files that its line stages, or the saved job did.
func (c *call) shipping() (*hold, error) {
	if c.line.Job.Resume != "" {
		return c.reship()
	}
	return shipping(c.line, c.world.Local, c.sys, &c.req, &c.env)
}

// shipping lets a request have the files that its line stages.
func shipping(line option.Line, here request.Localhost, sys System, req *job.Request, env *launch.Env) (*hold, error) {
	if len(line.Job.Stage) == 0 && len(line.Job.StageFiles) == 0 && !line.Job.StageProg {
		return &hold{}, nil
	}
	h, err := stowed(line, here, cmp.Or(sys.getenv("PATH"), job.DefaultPath))
	if err != nil {
		return nil, err
	}
	env.Cargo = h.cargo
	if err := h.ship(req, here.Dir); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// read makes the hashes while hosts are reached, if anything will be sent to one.
func (h *hold) read(nodes []job.NodeDef) {
	if slices.ContainsFunc(nodes, func(n job.NodeDef) bool { return !n.Local }) {
		for _, c := range h.cargo {
			c.Sum()
		}
	}
}
