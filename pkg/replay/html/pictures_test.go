//go:build pictures

package html

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

var pictures = flag.String("pictures", ".", "folder to write screenshots of the page to")

// Run with -tags pictures -pictures folder to look at the page. It checks nothing but that the page opens without an error.
func TestBrowserPictures(t *testing.T) {
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(*pictures, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range map[string]*report.Report{
		"100-nodes": synthetic(100, 3, policyNames...), "1000-nodes": synthetic(1000, 3, policyNames...), "many-policies": manyPolicies(),
	} {
		tb := open(t, r)
		picture := func(look string, width int64) {
			tb.window(width)
			write(fmt.Sprintf("%s-%s-%d.png", name, look, width), get(tb, chromedp.FullScreenshot(100)))
		}
		for _, colors := range []string{"dark", "light"} {
			tb.scheme(colors)
			for _, width := range []int64{360, 1280, 2560} {
				picture(colors, width)
			}
		}
		write(name+".pdf", get(tb, chromedp.PrintToPDF()))
		call(tb, emulation.SetEmulatedVisionDeficiency, emulation.SetEmulatedVisionDeficiencyParams{
			Type: emulation.SetEmulatedVisionDeficiencyTypeDeuteranopia,
		})
		picture("deuteranopia", 1280)
	}
}
