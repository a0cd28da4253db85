package build

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// stamp returns a text that records what a program was built from. A program is rebuilt when its stamp has changed, so the stamp
// holds exactly what requires a new build.
func stamp(p Part, version, platform string, flags []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n", p.Package)
	fmt.Fprintf(&b, "version %s\n", version)
	fmt.Fprintf(&b, "platform %s\n", platform)
	for _, flag := range flags {
		fmt.Fprintf(&b, "flag %s\n", flag)
	}
	return b.String()
}

func upToDate(binary, want string) (bool, error) {
	switch info, err := os.Stat(binary); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o100 == 0:
		return false, nil
	}
	got, err := os.ReadFile(stampPath(binary))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return string(got) == want, err
}

func stampPath(binary string) string { return binary + ".stamp" }
