package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

/*
A linux is a .deb or .rpm package, which the Go module nfpm writes.

The package can be installed together with mpich and openmpi-bin. On Debian these two share /usr/bin/mpirun through
update-alternatives, with the priorities 40 and 50. /usr/bin/mpiexec is a slave of that alternative. This package has a
lower priority, because a program that was linked with Open MPI needs Open MPI's launcher. So /usr/bin/mpirun belongs to
this package only if no other package provides it, or on request:

	update-alternatives --set mpirun /usr/bin/mpirun.remshell

On systems with RPM, other MPIs are not in PATH until an environment module is loaded. On these systems mpirun belongs to
this package as soon as the package is installed.
*/
type linux struct {
	kind          string // "deb" or "rpm"
	version, arch string
	at            time.Time
	files         tree
}

// priority is the priority of this package's mpirun in update-alternatives.
const priority = 30

// name returns the file name of the package according to the conventions of its package manager.
func (p linux) name() string {
	if p.kind == "rpm" {
		return fmt.Sprintf("remshell-%s-1.%s.rpm", p.version, rpmArch(p.arch))
	}
	return fmt.Sprintf("remshell_%s_%s.deb", p.version, p.arch)
}

// rpmArch returns the name that RPM uses for an architecture.
func rpmArch(arch string) string {
	switch arch {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return arch
}

// bytes returns the content of the package. It writes the package's files to a temporary directory, from
// which nfpm reads them.
func (p linux) bytes() ([]byte, error) {
	work, err := os.MkdirTemp("", "pack-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "remshell", Version: p.version, VersionSchema: "none", Release: p.release(), Arch: p.arch, Platform: "linux",
		Section: "net", Priority: "optional", Maintainer: "Remshell <remshell@example.org>", MTime: p.at,
		Description: "mpiexec over SSH, without a daemon\n" +
			"Starts MPI programs (MPICH and others that speak PMI-1 or PMI-2), and any other\n" +
			"program, on many hosts over SSH. Nothing needs to be installed on the hosts.",
	})
	info.Suggests = []string{"openssh-client", "mpich"}
	info.RPM.BuildHost = "remshell" // instead of this machine's name
	if p.kind == "rpm" {
		info.Suggests, info.Depends = []string{"openssh-clients"}, []string{"/usr/sbin/update-alternatives"}
	}
	if info.Scripts.PostInstall, err = keep(work, "postinst", []byte(p.postinst())); err != nil {
		return nil, err
	}
	if info.Scripts.PreRemove, err = keep(work, "prerm", []byte(p.prerm())); err != nil {
		return nil, err
	}
	if info.Contents, err = p.contents(work); err != nil {
		return nil, err
	}
	packager, err := nfpm.Get(p.kind)
	if err != nil {
		return nil, err
	}
	if err := nfpm.PrepareForPackager(info, p.kind); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = packager.Package(info, &b)
	return b.Bytes(), err
}

// release returns RPM's release number, which follows the version in the file name. It returns "" for a .deb.
func (p linux) release() string {
	if p.kind == "rpm" {
		return "1"
	}
	return ""
}

// contents returns the list of the package's files, as nfpm requires it. It writes the files to the directory work,
// from which nfpm reads them.
func (p linux) contents(work string) (list files.Contents, err error) {
	for i, name := range names(p.files) {
		f := p.files[name]
		c := &files.Content{Destination: "/" + name, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: os.FileMode(f.mode), MTime: p.at}}
		switch {
		case f.link != "":
			c.Type, c.Source = files.TypeSymlink, f.link
		case f.folder:
			c.Type, c.FileInfo.Mode = files.TypeDir, 0o755
		default:
			if c.Source, err = keep(work, fmt.Sprint(i), f.data); err != nil {
				return nil, err
			}
		}
		list = append(list, c)
	}
	return list, nil
}

// keep writes a file to the directory work and returns its path.
func keep(work, name string, data []byte) (file string, err error) {
	file = filepath.Join(work, name)
	return file, os.WriteFile(file, data, 0o600)
}

// postinst returns the script that registers mpirun and mpiexec with update-alternatives. Completions and manual
// pages are slaves, so that they change together with mpirun. The argument of the script is the name of an
// action if dpkg runs it, and the number of installed versions if rpm runs it.
func (p linux) postinst() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, `#!/bin/sh
set -e
case $1 in configure | abort-remove | abort-deconfigure | abort-upgrade | [1-9]*)
%s	update-alternatives --install /usr/bin/mpirun mpirun /usr/bin/mpirun.remshell %d \
		--slave /usr/bin/mpiexec mpiexec /usr/bin/mpiexec.remshell`, p.folders(), priority)
	for _, s := range p.slaves() {
		fmt.Fprintf(b, " \\\n\t\t--slave %s %s %s", s[0], s[1], s[2])
	}
	b.WriteString("\n\t;;\nesac\n")
	return b.String()
}

// folders returns the shell command that creates the directories of the slaves of update-alternatives. On Fedora
// these directories belong to the package filesystem, and would be removed with this package if it contained them.
// For a .deb, folders returns "", because the package contains the directories.
func (p linux) folders() string {
	if p.kind == "deb" {
		return ""
	}
	var dirs []string
	for _, s := range p.slaves() {
		dirs = append(dirs, above(s[0]))
	}
	return "\tmkdir -p " + strings.Join(slices.Compact(dirs), " ") + "\n"
}

// prerm returns the script that removes mpirun of this package, with its slaves, from update-alternatives. The script
// does nothing during an upgrade, for which rpm passes 1.
func (p linux) prerm() string {
	return `#!/bin/sh
set -e
case $1 in remove | deconfigure | 0)
	update-alternatives --remove mpirun /usr/bin/mpirun.remshell
	;;
esac
`
}

// slaves returns the link, the name and the file of each slave of mpirun in this package. These are terms of
// update-alternatives.
func (p linux) slaves() (found [][3]string) { return slaves(p.kind, p.files) }

// slaves returns the link, the name and the file of each slave of mpirun in a tree of files. These are terms of
// update-alternatives. kind is deb or rpm.
func slaves(kind string, files tree) (found [][3]string) {
	zsh := "/usr/share/zsh/vendor-completions/_mpiexec"
	if kind == "rpm" {
		zsh = "/usr/share/zsh/site-functions/_mpiexec"
	}
	for _, s := range [][3]string{
		{"/usr/share/man/man1/mpiexec.1.gz", "mpiexec.1.gz", "usr/share/man/man1/mpiexec.remshell.1.gz"},
		{"/usr/share/man/man1/mpirun.1.gz", "mpirun.1.gz", "usr/share/man/man1/mpirun.remshell.1.gz"},
		{"/usr/share/bash-completion/completions/mpiexec", "mpiexec.bash", completion("bash-completion/completions/mpiexec")},
		{"/usr/share/bash-completion/completions/mpirun", "mpirun.bash", completion("bash-completion/completions/mpiexec")}, // bash looks for a file with the command's name
		{zsh, "mpiexec.zsh", completion("zsh/site-functions/_mpiexec")},
		{"/usr/share/fish/vendor_completions.d/mpiexec.fish", "mpiexec.fish", completion("fish/vendor_completions.d/mpiexec.fish")},
		{"/usr/share/fish/vendor_completions.d/mpirun.fish", "mpirun.fish", completion("fish/vendor_completions.d/mpiexec.fish")},
	} {
		if _, exists := files[s[2]]; exists {
			s[2] = "/" + s[2]
			found = append(found, s)
		}
	}
	return found
}

// version returns a version that dpkg and rpm accept and that sorts by time. The version of a release is its
// number. A build after a release sorts after that release and before the next one, because "+" sorts after the end
// of a number. A build without a number sorts before all others, because "~" sorts first (deb-version(7),
// rpm-version(7)).
func version(r release) string {
	parts := regexp.MustCompile(`^v?([0-9]+(?:\.[0-9]+)*)(?:\+(.*))?$`).FindStringSubmatch(r.version)
	built := r.at.Format("20060102150405") + "."
	switch {
	case parts == nil:
		return "0~" + built + packagePart(r.version)
	case parts[2] == "":
		return parts[1]
	default:
		return parts[1] + "+" + built + packagePart(parts[2])
	}
}

// packagePart returns text with one dot in place of each run of characters that are not allowed in the version of a
// package.
func packagePart(text string) string {
	return regexp.MustCompile(`[^A-Za-z0-9.]+`).ReplaceAllString(text, ".")
}
