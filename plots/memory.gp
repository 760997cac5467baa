# Memory of the fullest stage over one step, stacked by part, and every stage's
# peak beside it, with what each type of devices holds. tdp writes variables.gp, memory.dat and peaks.dat.

set encoding utf8
face = 'DejaVu Sans'
ink = '#1A202C'
soft = '#5A6472'
alarm = '#C53030'
width = 1200
height = 560 + further
left = 78
right = 100 # holds the capacity's label
top = 118 + further # pixels of the second line of what stands below the title and on
bottom = 62
bars = stages == 1 ? 0 : stages > 10 ? 300 : 60 + 24 * stages # width of the second panel
across(pixels) = 1.0 * pixels / width
down(pixels) = 1 - 1.0 * pixels / height
part_rgb(i) = int(part_color[i])

unset key
set yrange [0:highest]
set tmargin at screen down(top)
set bmargin at screen down(height - bottom)
set tics nomirror out scale 0.6 tc rgb soft
set grid ytics lt 1 lc rgb '#DDE1E6' lw 0.7 back

do for [format in formats] {
  if (format eq 'svg') {
    set terminal svg size width, height font face.',11' background '#FFFFFF' noenhanced
  }
  if (format eq 'six') {
    scale = pixels / width < 1.5 ? 1.0 * pixels / width : 1.5
    set terminal sixelgd truecolor size scale * width, scale * height font face.',11' fontscale scale * 0.82 \
      linewidth scale background '#FFFFFF' noenhanced
  }
  if (format eq 'png') {
    set terminal pngcairo size 1.5 * width, 1.5 * height font face.',11' fontscale 1.12 linewidth 1.5 noenhanced
  }
  set output name.'.'.format
  set multiplot

  # over time, with all the text
  set border 3 lc rgb '#A0A8B2' lw 1
  set lmargin at screen across(left)
  set rmargin at screen across(width - right - bars - (bars ? 14 : 0))
  set xrange [0:end]
  set xtics auto
  set format y '%g'
  set xlabel sprintf('time (%s)', unit) tc rgb soft offset 0,0.4
  set label sprintf('memory (%s)', size) at screen across(22), graph 0.5 center rotate tc rgb soft
  set label headline at screen across(left), down(24) left font face.',14' tc rgb ink
  do for [i = 1:lines] {
    set label line[i] at screen across(left), down(47 + line_pixels * (i - 1)) left font face.',10' tc rgb soft
  }
  set label panel at screen across(left), down(top - 12) left font face.',10' tc rgb soft
  x = left
  do for [i = 1:parts] {
    set object i rectangle from screen across(x), down(80 + further) to screen across(x + 12), down(68 + further) \
      fs solid noborder fc rgb part_rgb(i) front
    set label part_name[i] at screen across(x + 18), down(74 + further) left font face.',10' tc rgb ink
    x = x + 40 + 5.9 * strlen(part_name[i])
  }
  if (capacity <= highest) {
    set arrow 1 from graph 0, first capacity to graph 1, first capacity nohead dt (8,6) lw 1.4 lc rgb alarm front
  }
  do for [i = 1:capacities] {
    if (capacity_at[i] <= highest) {
      set label capacity_of[i]."\n".capacity_text[i] at screen across(width - right + 10), first capacity_at[i] left offset 0,0.4 \
        font face.',10' tc rgb alarm
    }
  }
  plot for [i = parts:1:-1] 'memory.dat' using 1:(column(i + 1)) \
      with filledcurves y1=0 fs solid noborder lc rgb part_rgb(i), \
    'peaks.dat' every ::fullest::fullest using (peak_time):(peak) with points pt 7 ps 0.6 lc rgb ink
  unset label
  unset object

  # every stage's peak
  if (bars) {
    set border 1
    set lmargin at screen across(width - right - bars)
    set rmargin at screen across(width - right)
    set xrange [-0.6:stages - 0.4]
    set xtics 0, (stages > 64 ? 16 : stages > 20 ? 8 : stages > 10 ? 2 : 1)
    set format y ''
    set ytics scale 0
    set xlabel 'peak by stage' tc rgb soft offset 0,0.4
    if (capacities > 1) { # a line over each stage
      unset arrow
    }
    plot for [i = parts:1:-1] 'peaks.dat' \
      using 1:(column(i + 1) / 2):($1 - 0.4):($1 + 0.4):(0):(column(i + 1)) \
      with boxxyerror fs solid noborder lc rgb part_rgb(i), \
      'peaks.dat' using ($1 - 0.5):(capacities > 1 && column(parts + 2) <= highest ? column(parts + 2) : NaN):(1):(0) \
      with vectors nohead dt (8,6) lw 1.4 lc rgb alarm
    set ytics scale 0.6
  }
  unset arrow
  unset multiplot
  unset output
}
