package main

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	// Unlike that of the standard library, what it writes does not depend on the version of Go.
	"github.com/klauspost/compress/gzip"
)

// entry is a file of an archive. Its content is that of the file source or, if that is empty, content.
type entry struct {
	name       string
	source     string
	content    []byte
	executable bool
}

// writeTarGz writes a compressed archive. The same entries and time make the same file.
func writeTarGz(file string, modified time.Time, entries []entry) error {
	return create(file, func(w io.Writer) error {
		compressed := gzip.NewWriter(w)
		return errors.Join(writeTar(compressed, modified, entries), compressed.Close())
	})
}

// writeTar writes the entries sorted by name, each behind the folders that hold it. All belong to root.
func writeTar(w io.Writer, modified time.Time, entries []entry) error {
	archive := tar.NewWriter(w)
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	folders := map[string]bool{".": true}
	for _, e := range sorted {
		if err := writeFolder(archive, modified, folders, path.Dir(e.name)); err != nil {
			return err
		}
		if err := e.write(archive, modified); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeFolder writes a folder and its parents, unless folders has them.
func writeFolder(archive *tar.Writer, modified time.Time, folders map[string]bool, name string) error {
	if folders[name] {
		return nil
	}
	folders[name] = true
	if err := writeFolder(archive, modified, folders, path.Dir(name)); err != nil {
		return err
	}
	return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: modified})
}

func (e entry) write(archive *tar.Writer, modified time.Time) (err error) {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: 0o644, Size: int64(len(e.content)), ModTime: modified}
	if e.executable {
		header.Mode = 0o755
	}
	if e.source == "" {
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(e.content)
		return err
	}
	source, err := os.Open(e.source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, source)
	return err
}

func create(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

func folderEntries(dir string) (entries []entry, err error) {
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		entries = append(entries, entry{name: filepath.ToSlash(name), source: file})
		return err
	})
	return entries, err
}

func readTarGz(path string) (entries []entry, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	err = readTar(plain, func(header *tar.Header, content io.Reader) error {
		all, err := io.ReadAll(content)
		entries = append(entries, entry{name: header.Name, content: all})
		return err
	})
	return entries, err
}

func unpackTar(path, dir string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return readTar(file, func(header *tar.Header, content io.Reader) error {
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return err
		}
		file, err := root.OpenFile(header.Name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, header.FileInfo().Mode())
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Close())
	})
}

func readTar(r io.Reader, visit func(header *tar.Header, content io.Reader) error) error {
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := visit(header, archive); err != nil {
			return err
		}
	}
}
