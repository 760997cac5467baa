# One training step: a row a pipeline stage, communication as strips below it.
# tdp writes variables.gp (sizes in pixels, labels, legend), boxes.dat and numbers.dat.

set encoding utf8
face = 'DejaVu Sans'
ink = '#1A202C'
soft = '#5A6472'
across(pixels) = 1.0 * pixels / width
down(pixels) = 1 - 1.0 * pixels / height

set lmargin at screen across(left)
set rmargin at screen across(width - right)
set tmargin at screen down(top)
set bmargin at screen down(height - bottom)

set xrange [0:end]
set yrange [rows:0]
set xtics nomirror out scale 0.6 tc rgb soft
set xlabel sprintf('time (%s)', unit) tc rgb soft offset 0,0.4
unset ytics
unset key
set border 1 lc rgb '#A0A8B2' lw 1

# what stands around the rows
set label headline at screen across(left), down(24) left font face.',14' tc rgb ink
set label subtitle at screen across(left), down(47) left font face.',10' tc rgb soft
set label 'bubble' at screen across(width - right + 58), down(top - 10) right font face.',10' tc rgb soft
set label 'peak memory' at screen across(width - 16), down(top - 10) right font face.',10' tc rgb soft
do for [i = 1:rows] {
  set label row_name[i] at screen across(left - 10), first i - 1 + row_middle right font face.',10' tc rgb ink
  set label row_bubble[i] at screen across(width - right + 58), first i - 1 + row_middle right font face.',10' \
    tc rgb ink
  set label row_peak[i] at screen across(width - 16), first i - 1 + row_middle right font face.',10' \
    tc rgb (row_too_full[i] ? '#C53030' : ink)
}

# legend: a square and its name, one behind the other, from the left
x = left
do for [i = 1:entries] {
  set object i rectangle from screen across(x), down(height - 25) to screen across(x + 12), down(height - 13) \
    fs solid noborder fc rgb int(entry_color[i]) front
  set label entry_name[i] at screen across(x + 18), down(height - 19) left font face.',10' tc rgb ink
  x = x + (strlen(entry_name[i]) ? 40 + 5.9 * strlen(entry_name[i]) : 13)
}

do for [format in 'svg png'] {
  if (format eq 'svg') {
    set terminal svg size width, height font face.',11' background '#FFFFFF' noenhanced
  } else {
    set terminal pngcairo size 1.5 * width, 1.5 * height font face.',11' fontscale 1.12 linewidth 1.5 noenhanced
  }
  set output 'timeline.'.format
  plot 'boxes.dat' using (($1 + $2) / 2):(($3 + $4) / 2):1:2:3:4:5 with boxxyerror fs solid noborder lc rgb variable, \
    'numbers.dat' using 1:2:3:4 with labels font face.',8' tc rgb variable
  unset output
}
